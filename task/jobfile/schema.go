package jobfile

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of one document of a job file,
// for editors. What it accepts, [Parse] accepts, but for what a schema cannot
// express: durations out of range, names used twice, bounds of size.
func Schema() []byte { return bytes.Clone(schema) }
