package jobfile

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of one document of a job file, for editors.
// [Parse] accepts the documents that it accepts, except for rules that a schema cannot express:
// durations out of range, duplicate names, bounds on size.
func Schema() []byte { return bytes.Clone(schema) }
