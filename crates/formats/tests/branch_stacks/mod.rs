//! Makes files as perf writes them on a processor with branch records.

/// Writes the parts of a file that are read, as `perf record -b -e cycles:u` does: one process with
/// one mapping.
pub fn perf_data(path: &str, build_id: &[u8], bias: u64, stacks: &[Vec<(u64, u64)>]) -> Vec<u8> {
    fn record(out: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) {
        out.extend(kind.to_le_bytes());
        out.extend(misc.to_le_bytes());
        out.extend((8 + body.len() as u16).to_le_bytes());
        out.extend(body);
    }
    fn words(out: &mut Vec<u8>, words: &[u64]) {
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    // IP, TID, TIME, PERIOD, BRANCH_STACK; build-ids in mappings; any branch, in user code.
    const FORMAT: u64 = 0x1 | 0x2 | 0x4 | 0x100 | 0x800;
    let mut records = Vec::new();
    let mut body = Vec::new();
    words(&mut body, &[7 << 32 | 7, bias, 1 << 24, 0]);
    body.extend([build_id.len() as u8, 0, 0, 0]);
    body.extend(build_id);
    body.resize(32 + 24, 0);
    words(&mut body, &[2 << 32 | 5]);
    body.extend(path.bytes());
    body.resize(body.len().next_multiple_of(8) + 8, 0);
    record(&mut records, 10, 2 | 1 << 14, &body);
    for (time, stack) in stacks.iter().enumerate() {
        let mut body = Vec::new();
        words(
            &mut body,
            &[bias, 7 << 32 | 7, time as u64, 1000, stack.len() as u64],
        );
        for (from, to) in stack {
            words(&mut body, &[*from, *to, 0]);
        }
        record(&mut records, 9, 2, &body);
    }
    let mut attribute = vec![0; 128];
    let mut put = |at: usize, word: u64| attribute[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(0, 128 << 32);
    put(24, FORMAT);
    put(40, 1 << 34);
    put(72, 1 << 3 | 1);
    let mut file = b"PERFILE2".to_vec();
    words(
        &mut file,
        &[
            104,
            144,
            104,
            144,
            248,
            records.len() as u64,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    );
    file.extend(attribute);
    file.extend([0; 16]);
    file.extend(records);
    file
}
