use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

const SECRETS: [[u8; 32]; 4] = [[0; 32], [0xff; 32], [7; 32], *b"a secret of a history, 32 bytes!"];
const SAMPLES: u64 = 1 << 16;

/// How the n-th UUID of a family looks.
type Family = fn(u64) -> u128;

/// Families of UUIDs as software makes them, little of them random.
fn families() -> Vec<(&'static str, Family)> {
    vec![
        ("counter at the end", |n| u128::from(n)),
        ("counter at the front", |n| u128::from(n) << 108),
        ("counter in the middle", |n| u128::from(n) << 56),
        ("version 7, one a millisecond", |n| (0x0190_0000_0000_u128 + u128::from(n)) << 80 | 0x7000_8000 << 48),
        ("version 7, a counter within one millisecond", |n| 0x0190_1234_5678_7000_8000 << 48 | u128::from(n) << 20),
        ("version 1, ticks in a fixed node", |n| u128::from(n * 10_000) << 96 | 0x1234_11ee_8aaa_0242_ac12_0002),
        ("multiples of a power of two in both halves", |n| u128::from(n << 40) << 64 | u128::from(n << 40)),
    ]
}

fn keys_of(codec: &Codec, family: Family) -> Vec<Key> {
    (0..SAMPLES).map(|n| codec.mix(family(n).to_be_bytes())).collect()
}

/// How far counts in equal buckets are from even: about 0 when random, in standard deviations.
fn unevenness(buckets: usize, values: impl Iterator<Item = usize>) -> f64 {
    let mut counts = vec![0_u32; buckets];
    values.for_each(|value| counts[value] += 1);
    let expected = SAMPLES as f64 / buckets as f64;
    let squares: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let freedom = (buckets - 1) as f64;
    (squares - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn top_bits_are_even_whatever_the_uuids_look_like() {
    for secret in &SECRETS {
        let codec = Codec::new(secret);
        for (name, family) in families() {
            let keys = keys_of(&codec, family);
            for bits in [4, 8, 12] {
                let hi = unevenness(1 << bits, keys.iter().map(|key| (key.hi >> (64 - bits)) as usize));
                let lo = unevenness(1 << bits, keys.iter().map(|key| (key.lo >> (64 - bits)) as usize));
                let low = unevenness(1 << bits, keys.iter().map(|key| key.lo as usize & ((1 << bits) - 1)));
                let worst = hi.abs().max(lo.abs()).max(low.abs());
                assert!(worst < 6.0, "{name}: {hi:.1} {lo:.1} {low:.1} deviations in {bits} bits");
            }
        }
    }
}

#[test]
fn one_changed_bit_of_a_uuid_changes_half_of_its_key() {
    for secret in &SECRETS {
        let codec = Codec::new(secret);
        for bit in 0..128 {
            let changed: u32 = (0..512_u128)
                .map(|n| {
                    let uuid = n << 60 | n;
                    let (one, other) = (codec.mix(uuid.to_be_bytes()), codec.mix((uuid ^ (1 << bit)).to_be_bytes()));
                    (one.hi ^ other.hi).count_ones() + (one.lo ^ other.lo).count_ones()
                })
                .sum();
            let mean = f64::from(changed) / 512.0;
            assert!((60.0..68.0).contains(&mean), "bit {bit} changes {mean} bits of 128");
        }
    }
}

#[test]
fn secrets_give_unrelated_keys() {
    let keys: HashSet<Key> = SECRETS.iter().map(|secret| Codec::new(secret).mix([1; 16])).collect();
    assert_eq!(keys.len(), SECRETS.len());
    let hashes: HashSet<Key> = SECRETS.iter().map(|secret| Codec::new(secret).hash_text(b"order-1")).collect();
    assert_eq!(hashes.len(), SECRETS.len());
}

#[test]
fn the_keys_of_a_secret_stay_what_they_are() {
    // They are on disk: a change here is a new format version.
    let codec = Codec::new(b"a secret of a history, 32 bytes!");
    let uuid = 0x0190_1234_5678_7abc_8def_0123_4567_89ab_u128.to_be_bytes();
    let pinned = [codec.mix(uuid), codec.hash_text(b"order-1"), codec.hash_text(&[b'x'; 384])];
    let hex = pinned.map(|key| format!("{:016x} {:016x}", key.hi, key.lo));
    let want =
        ["5f1638417b192a45 bf9fd052444563d5", "80d5c876818f7b14 d07144067ca2c356", "52be2abb1d5e843a 5aa1fb135c39f309"];
    assert_eq!(hex, want);
}

#[test]
fn colliding_codec_has_four_keys_for_all_texts() {
    let secret = [3; 32];
    let codec = Codec::colliding_for_tests(&secret);
    let keys: HashSet<Key> = (0..1000).map(|n| codec.hash_text(format!("order-{n}").as_bytes())).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(codec.mix([9; 16]), Codec::new(&secret).mix([9; 16]));
}

proptest! {
    #[test]
    fn mixing_can_be_undone(secret: [u8; 32], uuid: [u8; 16]) {
        let codec = Codec::new(&secret);
        prop_assert_eq!(codec.unmix(codec.mix(uuid)), uuid);
    }

    #[test]
    fn every_key_is_the_key_of_a_uuid(secret: [u8; 32], hi: u64, lo: u64) {
        let codec = Codec::new(&secret);
        let key = Key { hi, lo };
        prop_assert_eq!(codec.mix(codec.unmix(key)), key);
    }
}
