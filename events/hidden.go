package events

import "strings"

// HiddenText tells whether a text has the form of one that an incident file hides: "~" and 12 digits
// of its hash. Any submitter can write such a text into a live log. It stands for a hidden text only
// up to the sequence that an [ExportHeader], an incident file or an imported log names.
func HiddenText(text string) bool {
	return len(text) == 13 && text[0] == '~' && strings.Trim(text[1:], "0123456789abcdef") == ""
}

// Hidden tells whether a JSON value has the form of one that an incident file hides; see
// [HiddenText].
func Hidden(value any) bool {
	switch v := value.(type) {
	case string:
		return HiddenText(v)
	case map[string]any:
		text, ok := v["redacted"].(string)
		return ok && len(v) == 2 && HiddenText(text)
	}
	return false
}
