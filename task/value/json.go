package value

import (
	"bytes"
	"encoding/json"
)

// JSON encodes v as package json does, but with <, > and & as they are: people read what comes out,
// and programs look for a text in it. What is JSON already keeps its spelling.
func JSON(v any) ([]byte, error) { return encoded(v, "") }

// Indented is [JSON] over several lines.
func Indented(v any) ([]byte, error) { return encoded(v, "  ") }

func encoded(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err // the line end that the encoder adds
}
