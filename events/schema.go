package events

import "embed"

//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema (draft 2020-12) of a type of fact. It refers
// to fact.json, which holds what the types share and which Schema("fact") returns.
func Schema(t Type) ([]byte, bool) {
	text, err := schemas.ReadFile("schema/" + string(t) + ".json")
	return text, err == nil
}
