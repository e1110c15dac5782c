package ipc

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions here walk over JSON that json.Valid has accepted. One walk finds the two fields of
// an envelope without decoding, and so without copying, a payload of up to a megabyte.

// envelope returns the message of a line, and its key; both share the line's memory, and are nil if
// there is none. It reports false if the line is not one valid JSON object with a known type, or of
// another version. Other fields (ts) are accepted and ignored. If a field occurs twice, the last
// one counts.
func envelope(line []byte) (m Message, key []byte, ok bool) {
	if !json.Valid(line) {
		return Message{}, nil, false
	}
	for name, value := range members(line) {
		switch string(name) {
		case `"type"`:
			if m.Type, ok = typeName(value); !ok {
				return Message{}, nil, false
			}
		case `"payload"`:
			m.Payload = value
		case `"key"`:
			key = plain(value)
		case `"id"`:
			m.ID = identity(value)
		case `"v"`:
			if v := string(value); v != "1" && v != "null" {
				return Message{}, nil, false
			}
		}
	}
	return m, key, ok
}

// typeName returns the known type in a JSON value.
func typeName(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	for _, name := range fromProcess {
		if string(value[1:len(value)-1]) == name {
			return name, true
		}
	}
	return "", false
}

// identity returns the id in a JSON value, a text or a number; "" for anything else.
func identity(value []byte) string {
	var id string
	switch k := kind(value); {
	case k == '"':
		_ = json.Unmarshal(value, &id) // it is valid
	case k == '-' || k >= '0' && k <= '9':
		id = string(value)
	}
	if len(id) > MaxID {
		return ""
	}
	return id
}

// kind returns the first byte of a JSON value: one of { [ " t f n, a digit or a minus; 0 if there
// is no value.
func kind(value []byte) byte {
	if value = bytes.TrimLeft(value, " \t\r\n"); len(value) > 0 {
		return value[0]
	}
	return 0
}

// members yields the keys, with their quotes, and the values of a valid object.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		at := skipSpace(object, 0) + 1
		for {
			at = skipSpace(object, at)
			if at >= len(object) || object[at] == '}' {
				return
			}
			end := skipValue(object, at)
			key := object[at:end]
			at = skipSpace(object, skipSpace(object, end)+1) // after the colon
			if at > len(object) {
				return // cut off
			}
			end = skipValue(object, at)
			if !yield(key, object[at:end]) {
				return
			}
			at = skipComma(object, end)
		}
	}
}

// elements yields the elements of a valid array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := skipSpace(array, 0) + 1
		for {
			at = skipSpace(array, at)
			if at >= len(array) || array[at] == ']' {
				return
			}
			end := skipValue(array, at)
			if !yield(array[at:end]) {
				return
			}
			at = skipComma(array, end)
		}
	}
}

func skipComma(s []byte, at int) int {
	at = skipSpace(s, at)
	if at < len(s) && s[at] == ',' {
		at++
	}
	return at
}

func skipSpace(s []byte, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t' || s[at] == '\r' || s[at] == '\n') {
		at++
	}
	return at
}

// skipValue returns the end of the value that begins at at. It always advances.
func skipValue(s []byte, at int) int {
	depth := 0
	for at < len(s) {
		switch s[at] {
		case '"':
			at = skipString(s, at)
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			// Ends a number or a word; inside an object or array it ends nothing.
			if depth == 0 {
				return at
			}
		}
		at++
		if depth == 0 && at < len(s) && (s[at] == '}' || s[at] == ']') {
			return at // a number or a word, at the end of what contains it
		}
	}
	return at
}

// skipString returns the place after the string that begins at at.
func skipString(s []byte, at int) int {
	for at++; at < len(s); at++ {
		switch s[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(s)
}
