//! Settings that are one of a few words.

use crate::Error;

/// A setting that is one of a few words.
macro_rules! word_setting {
    ($(#[$doc:meta])* $name:ident, $setting:literal, { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word that stands for it in the settings.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(word: &str) -> $crate::Result<Self> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::types::words::unknown_word($setting, word, &[$($word),+])),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use word_setting;

pub(crate) fn unknown_word(setting: &str, word: &str, allowed: &[&str]) -> Error {
    let allowed: Vec<String> = allowed.iter().map(|word| format!("{word:?}")).collect();
    Error::Config(format!("{setting} is {word:?}; allowed is {}", allowed.join(" or ")))
}

word_setting!(
    /// Where a trigger's documents come from.
    Kind, "kind", {
        /// Publish and subscribe: redeliveries are counted, from 0.
        Messaging = "messaging",
        /// JMS: deliveries are counted, from 1 to a maximum.
        Jms = "jms",
    }
);
