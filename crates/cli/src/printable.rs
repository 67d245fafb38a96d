//! Names from outside, cleaned for terminals.

/// Cleans a name from outside for a terminal: each character that controls the terminal, changes
/// the direction of the text or is invisible becomes U+FFFD. Every command shows names through this
/// function.
pub fn clean_name(text: &str) -> String {
    text.chars()
        .map(|c| if is_deceptive(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Returns whether a character does something other than stand for itself: control characters (Cc),
/// direction marks and other invisible format characters (Cf), line separators, noncharacters.
pub fn is_deceptive(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    let noncharacter = matches!(c, '\u{fdd0}'..='\u{fdef}') || c as u32 & 0xfffe == 0xfffe;
    c.is_control() || invisible || noncharacter
}
