//! The settings: defaults, words, and what is refused.

use crate::error::Error;
use crate::protocols::trigger::rules::{Expiry, InBatch, Kind, ProcessingMode, Trigger};

fn refused(change: impl FnOnce(&mut Trigger)) -> String {
    let mut trigger = Trigger::new("orders", Kind::Jms);
    change(&mut trigger);
    match trigger.validate() {
        Err(Error::Config(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_trigger_has_the_documented_defaults() {
    let trigger = Trigger::new("orders", Kind::Messaging);
    assert!(!trigger.detect_duplicates && !trigger.use_history);
    assert_eq!(trigger.history_time_to_live_us, 7_200_000_000);
    assert_eq!(trigger.processing_mode, ProcessingMode::Concurrent);
    assert!(trigger.suspend_and_retry_on_error && !trigger.suspend_on_failure);
    assert_eq!(trigger.max_delivery_count, 100);
    assert_eq!((trigger.in_batch, trigger.expiry), (None, Expiry::UntilPurged));
    assert!(trigger.validate().is_ok());
}

#[test]
fn either_switch_suspends() {
    let mut trigger = Trigger::new("orders", Kind::Messaging);
    for (server, own, suspends) in [(false, false, false), (true, false, true), (false, true, true), (true, true, true)]
    {
        (trigger.suspend_and_retry_on_error, trigger.suspend_on_failure) = (server, own);
        assert_eq!(trigger.suspends(), suspends);
        assert_eq!(trigger.settings(false).suspend, suspends);
    }
}

#[test]
fn the_rules_get_the_settings_as_they_are() {
    let mut trigger = Trigger::new("orders", Kind::Jms);
    trigger.use_history = true;
    trigger.in_batch = Some(InBatch::New);
    trigger.max_delivery_count = 7;
    let settings = trigger.settings(true);
    assert!(settings.resolver && settings.use_history && !settings.detect_duplicates);
    assert_eq!((settings.kind, settings.max_delivery_count, settings.in_batch), (Kind::Jms, 7, Some(InBatch::New)));
    assert!(!trigger.settings(false).resolver);
}

#[test]
fn a_name_has_between_1_and_255_bytes_and_no_nul() {
    assert!(refused(|trigger| trigger.name.clear()).contains("name has 0 bytes"));
    assert!(refused(|trigger| trigger.name = "é".repeat(128)).contains("name has 256 bytes"));
    assert!(refused(|trigger| trigger.name = "a\0b".to_owned()).contains("\"a\\0b\""));
    assert!(Trigger::new("x".repeat(255), Kind::Jms).validate().is_ok());
}

#[test]
fn a_time_to_live_is_positive() {
    for us in [0, -1] {
        let text = refused(|trigger| trigger.history_time_to_live_us = us);
        assert!(text.starts_with(&format!("history_time_to_live is {us} microseconds")), "{text}");
    }
}

#[test]
fn a_maximum_of_deliveries_is_at_least_one() {
    assert_eq!(refused(|trigger| trigger.max_delivery_count = 0), "max_delivery_count is 0; allowed is 1 or more");
}

#[test]
fn a_limit_of_the_other_kind_is_refused() {
    for kind in Kind::ALL {
        for (deliveries, redeliveries) in [(100, None), (7, None), (100, Some(7))] {
            let trigger = Trigger {
                max_delivery_count: deliveries,
                max_redelivery_count: redeliveries,
                ..Trigger::new("orders", *kind)
            };
            let is_foreign = if *kind == Kind::Jms { redeliveries.is_some() } else { deliveries != 100 };
            assert_eq!(trigger.validate().is_err(), is_foreign, "{trigger:?}");
        }
    }
}

#[test]
fn every_word_stands_for_its_value() {
    for kind in Kind::ALL {
        assert_eq!(kind.to_string().parse::<Kind>().unwrap(), *kind);
    }
    for mode in ProcessingMode::ALL {
        assert_eq!(mode.as_str().parse::<ProcessingMode>().unwrap(), *mode);
    }
    for in_batch in InBatch::ALL {
        assert_eq!(in_batch.as_str().parse::<InBatch>().unwrap(), *in_batch);
    }
    for expiry in Expiry::ALL {
        assert_eq!(expiry.as_str().parse::<Expiry>().unwrap(), *expiry);
    }
    assert_eq!(Kind::ALL.len() + ProcessingMode::ALL.len() + InBatch::ALL.len() + Expiry::ALL.len(), 9);
}

#[test]
fn an_unknown_word_is_refused_with_those_that_are_allowed() {
    assert_eq!(
        "JMS".parse::<Kind>().unwrap_err().to_string(),
        r#"[DH-CONFIG] kind is "JMS"; allowed is "messaging" or "jms""#
    );
    assert_eq!(
        "".parse::<InBatch>().unwrap_err().to_string(),
        r#"[DH-CONFIG] in_batch is ""; allowed is "duplicate" or "in_doubt" or "new""#
    );
}
