package param

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"

	"millrace/task/value"
)

// Bounds of what a declaration may ask of the processor: everybody who may submit tasks, or have a job
// file checked, has values held against it.
const (
	// maxPattern and maxSchema are how many bytes a pattern and a schema may have, and maxParts how
	// many schemas a schema may consist of.
	maxPattern = 1 << 10
	maxSchema  = 16 << 10
	maxParts   = 200
	// maxSteps bounds the parts of a declaration, each instruction of a pattern being one, times the
	// bytes of a value. That many take a tenth of a second.
	maxSteps = 2_000_000
)

// parts counts the schemas of a schema, and the instructions of the patterns in it.
func parts(schema any) (n int) {
	switch s := schema.(type) {
	case map[string]any:
		n++
		for name, is := range s {
			switch text, ok := is.(string); {
			case ok && name == "pattern":
				n += instructions(text)
			case name == "enum" || name == "const" || name == "default" || name == "examples":
				n++ // a value is compared as a whole
			case name == "patternProperties":
				of, _ := is.(map[string]any)
				for pattern := range of {
					n += instructions(pattern)
				}
				n += parts(is)
			default:
				n += parts(is)
			}
		}
	case []any:
		for _, one := range s {
			n += parts(one)
		}
	}
	return n
}

// instructions counts those of a regular expression: for each byte of a text each may be tried. An
// invalid one has none.
func instructions(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}

// tooDear refuses a declaration that takes more than its share of the processor whatever the value.
func (d *Param) tooDear() error {
	switch {
	case len(d.Pattern) > maxPattern:
		return fmt.Errorf("pattern has %d bytes, want at most %d", len(d.Pattern), maxPattern)
	case len(d.Schema) > maxSchema:
		return fmt.Errorf("schema has %d bytes, want at most %d", len(d.Schema), maxSchema)
	}
	if n := d.parts(); n > maxParts && len(d.Schema) > 0 {
		return fmt.Errorf("schema has %d parts, each instruction of a pattern being one, want at most %d", n, maxParts)
	}
	return nil
}

// parts counts what each byte of a value may be held against.
func (d *Param) parts() int {
	n := 1
	if d.Pattern != "" {
		n += instructions(d.Pattern)
	}
	if len(d.Schema) > 0 {
		schema, err := value.Decode(d.Schema)
		if err == nil {
			n += parts(schema)
		}
	}
	return n
}

// most is how many bytes a value may have.
func (d *Param) most() int { return maxSteps / d.parts() }

// tooLong refuses a value that would take too long to be held against the declaration.
func (d *Param) tooLong(given json.RawMessage) error {
	if d.Pattern == "" && len(d.Schema) == 0 {
		return nil
	}
	if most := d.most(); len(given) > most {
		return fmt.Errorf("parameter %s has %d bytes, and its pattern and schema are for at most %d", d.Name, len(given), most)
	}
	return nil
}
