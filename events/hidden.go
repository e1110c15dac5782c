package events

import "strings"

// HiddenText tells whether a text stands for one that an incident file hides: "~" and 12 digits of
// its hash.
func HiddenText(text string) bool {
	return len(text) == 13 && text[0] == '~' && strings.Trim(text[1:], "0123456789abcdef") == ""
}

// Hidden tells whether a JSON value stands for one that an incident file hides. A log that was
// imported from such a file has them as well.
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
