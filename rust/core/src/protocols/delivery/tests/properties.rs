use super::*;
use proptest::prelude::*;

/// A chain of transactions from `start`: the length of each in the log, and its parts.
fn any_chain() -> impl Strategy<Value = (u64, Vec<PartHeader>)> {
    let sizes = prop::collection::vec((1..1000_u64, prop_oneof![3 => Just(1_u32), 1 => 2..6_u32]), 1..40);
    (0..1_u64 << 40, 0..3_u64, sizes).prop_map(|(start, epoch, sizes)| {
        let mut chain = Vec::new();
        let mut prev = start;
        for (length, parts) in sizes {
            chain.extend((0..parts - 1).map(|seq| header(epoch, prev, prev, seq)));
            chain.push(header(epoch, prev, prev + length, parts - 1));
            prev += length;
        }
        (start, chain)
    })
}

/// The chain in any order, some messages more than once; and where to split it into polls.
fn any_shuffle() -> impl Strategy<Value = (u64, Vec<PartHeader>, Vec<PartHeader>, Vec<usize>)> {
    any_chain().prop_flat_map(|(start, chain)| {
        let copies = prop::collection::vec(0..chain.len(), 0..20);
        (Just(start), Just(chain), copies).prop_flat_map(|(start, chain, copies)| {
            let mut arrivals = chain.clone();
            arrivals.extend(copies.into_iter().map(|at| chain[at]));
            let splits = prop::collection::vec(0..=arrivals.len(), 0..10);
            (Just(start), Just(chain), Just(arrivals).prop_shuffle(), splits)
        })
    })
}

fn messages(chain: &[PartHeader]) -> Vec<(u64, u64, u32)> {
    chain.iter().map(|h| (h.prev, h.cur, h.seq)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn any_arrival_order_applies_the_same_commits_in_order(
        (start, chain, arrivals, _) in any_shuffle(),
    ) {
        let table = one_stream(start, chain[0].resend_count);
        let poll = poll_one(&table, &arrivals, &Options::default());
        let arriving: Vec<Arriving<'_>> = arrivals.iter().map(|&header| ("s", Some(header))).collect();
        prop_assert_eq!(applied(&poll, &arriving, "s"), messages(&chain));
        let outcome = &poll.streams[0];
        prop_assert_eq!(outcome.log_received, chain.last().unwrap().cur);
        prop_assert_eq!((outcome.held, outcome.buffered_parts, outcome.resend), (0, 0, None));
    }

    #[test]
    fn arrivals_split_over_polls_with_large_patience_end_equal(
        (start, chain, arrivals, mut splits) in any_shuffle(),
    ) {
        let options = Options { patience: 1000, ..Options::default() };
        let mut table = one_stream(start, chain[0].resend_count);
        let (mut order, mut whole) = (Vec::new(), one_stream(start, chain[0].resend_count));
        splits.sort_unstable();
        splits.push(arrivals.len());
        let mut begin = 0;
        for end in splits {
            let poll = poll_one(&table, &arrivals[begin..end], &options);
            let arriving: Vec<Arriving<'_>> = arrivals[begin..end].iter().map(|&header| ("s", Some(header))).collect();
            order.extend(applied(&poll, &arriving, "s"));
            table.commit(poll).unwrap();
            begin = end;
        }
        prop_assert_eq!(order, messages(&chain));
        let poll = poll_one(&whole, &arrivals, &options);
        whole.commit(poll).unwrap();
        prop_assert_eq!(table.state("s"), whole.state("s"));
    }

    #[test]
    fn held_messages_leave_both_ends_in_order(
        batches in prop::collection::vec(prop::collection::btree_set((0..60_u64, 0..3_u32), 0..12), 0..12),
        turns in prop::collection::vec(any::<bool>(), 0..40),
    ) {
        use crate::protocols::delivery::held::{Message, Runs};
        let (mut runs, mut model) = (Runs::default(), std::collections::BTreeMap::new());
        let mut turns = turns.into_iter();
        for batch in batches {
            let fresh: Vec<_> = batch.into_iter().filter(|key| !model.contains_key(key)).collect();
            model.extend(fresh.iter().map(|&(prev, seq)| ((prev, seq), prev + 7)));
            runs.add(fresh.into_iter().map(|(prev, seq)| Message { prev, cur: prev + 7, seq }).collect());
            let before = (runs.clone(), runs.len());
            for low in turns.by_ref().take(4) {
                let (popped, expected) =
                    if low { (runs.pop_first(), model.pop_first()) } else { (runs.pop_last(), model.pop_last()) };
                prop_assert_eq!(popped.map(|m| (m.key(), m.cur)), expected);
            }
            prop_assert_eq!(before.0.len(), before.1, "a copy does not feel it");
            prop_assert_eq!((runs.len(), runs.is_empty()), (model.len(), model.is_empty()));
            for place in 0..60 {
                prop_assert_eq!(runs.find(place, 1), model.get(&(place, 1)).copied());
            }
        }
    }
}

#[test]
fn a_long_stream_in_reverse_is_applied_whole() {
    let count = 100_000_u64;
    let chain: Vec<PartHeader> = (0..count).map(|n| header(0, n, n + 1, 0)).collect();
    let reversed: Vec<PartHeader> = chain.iter().rev().copied().collect();
    let mut table = one_stream(0, 0);
    let patient = Options { patience: 1000, ..Options::default() };
    for some in reversed[..count as usize - 1].chunks(999) {
        let poll = poll_one(&table, some, &patient);
        table.commit(poll).unwrap();
    }
    let poll = poll_one(&table, &chain[..1], &patient);
    assert_eq!(poll.streams[0].log_received, count);
    assert_eq!(poll.released.len() as u64, count - 1);
    assert!(poll.released.iter().zip(1..).all(|(one, at)| (one.prev, one.apply_rank) == (u64::from(at), at)));
}
