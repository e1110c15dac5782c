// Package param declares the parameters of jobs and checks the parameters of submissions against
// the declarations. It is pure.
package param

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/task/value"
)

// Params are the parameters of a job's tasks, in one of two forms. Defaults may have any type, and
// a submission may set others beside them. Declarations are complete: a submission may set only
// declared parameters, to valid values. In JSON, an object holds defaults and a list holds
// declarations.
type Params struct {
	Defaults map[string]json.RawMessage `redact:"data"`
	Declared []Param
}

// IsZero tells whether there are none.
func (p Params) IsZero() bool { return len(p.Defaults) == 0 && len(p.Declared) == 0 }

// MarshalJSON writes declarations as a list, and defaults as an object.
func (p Params) MarshalJSON() ([]byte, error) {
	if len(p.Declared) > 0 {
		return value.JSON(p.Declared)
	}
	return value.JSON(p.Defaults)
}

// FormOf implements [value.Formed].
func (p *Params) FormOf(data []byte) any {
	if data[0] == '[' {
		return p.Declared
	}
	return p.Defaults
}

// UnmarshalJSON reads a list of declarations, or an object of defaults.
func (p *Params) UnmarshalJSON(data []byte) error {
	*p = Params{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, &p.Declared)
	}
	return json.Unmarshal(data, &p.Defaults)
}

// Values returns the values of a task whose submission sets none.
func (p *Params) Values() map[string]json.RawMessage {
	if len(p.Declared) == 0 {
		return p.Defaults
	}
	all := maps.Clone(p.Defaults)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for i := range p.Declared {
		if d := &p.Declared[i]; len(d.Default) > 0 {
			all[d.Name] = d.Given(d.Default)
		}
	}
	return all
}

// Find returns the declaration of a parameter; nil if there is none.
func (p *Params) Find(name string) *Param {
	i := slices.IndexFunc(p.Declared, func(d Param) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Declared[i]
}

// names are the names of the declared parameters, in order.
func (p *Params) names() []string {
	names := make([]string, len(p.Declared))
	for i := range p.Declared {
		names[i] = p.Declared[i].Name
	}
	return names
}

// Secrets returns the names of the secret parameters, whose values name a file on the node.
func (p *Params) Secrets() (names []string) {
	for i := range p.Declared {
		if p.Declared[i].Secret {
			names = append(names, p.Declared[i].Name)
		}
	}
	return names
}

// Read returns the values that a submission sets: values, overridden by texts, which are parsed as
// the declarations say. It returns an error for each invalid one, with its value and the valid
// values. It does not check for missing ones.
func (p *Params) Read(values map[string]json.RawMessage, texts map[string]string) (set map[string]json.RawMessage, wrong []error) {
	set = values
	if len(texts) > 0 {
		if set = maps.Clone(set); set == nil {
			set = map[string]json.RawMessage{}
		}
		for name, text := range texts {
			set[name] = p.read(name, text)
		}
	}
	if len(p.Declared) == 0 {
		return set, nil
	}
	set = maps.Clone(set)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		_, known := p.Defaults[name]
		if d := p.Find(name); d != nil {
			if err := d.Check(set[name]); err != nil {
				wrong = append(wrong, err)
			}
			set[name] = d.Given(set[name])
		} else if !known {
			wrong = append(wrong, fmt.Errorf("parameter %s is not one of the job's, which are %s", quoted(name), strings.Join(p.names(), ", ")))
		}
	}
	return set, wrong
}

// Missing returns an error for each required parameter that is neither set nor has a default, with
// its valid values.
func (p *Params) Missing(set map[string]json.RawMessage) (wrong []error) {
	for i := range p.Declared {
		d := &p.Declared[i]
		if _, given := set[d.Name]; !given && p.needs(d) {
			wrong = append(wrong, fmt.Errorf("parameter %s is missing: want %s", d.Name, d.Allowed()))
		}
	}
	return wrong
}

// read parses a parameter given as text: as its declaration says, else as JSON if it parses, else
// as a string.
func (p *Params) read(name, text string) json.RawMessage {
	if d := p.Find(name); d != nil {
		return d.read(text)
	}
	return textValue(text)
}

// Validate returns the errors of invalid declarations; each begins with its field.
func (p *Params) Validate() []error { return p.faults((*Param).tooDear) }

// ValidateStored is [Params.Validate] for what an earlier version may have stored, which had no bounds
// of cost. What a value may cost is bounded nevertheless.
func (p *Params) ValidateStored() []error { return p.faults(func(*Param) error { return nil }) }

func (p *Params) faults(bound func(*Param) error) (wrong []error) {
	if len(p.Declared) > 0 && len(p.Defaults) > 0 {
		return []error{errors.New("params: they are either defaults or declared, not both")}
	}
	if len(p.Declared) > Max {
		return []error{fmt.Errorf("params: %d are declared, want at most %d", len(p.Declared), Max)}
	}
	for i := range p.Declared {
		d := &p.Declared[i]
		if err := cmp.Or(bound(d), d.validate()); err != nil {
			wrong = append(wrong, fmt.Errorf("params[%d].%w", i, err))
		}
		if first := slices.IndexFunc(p.Declared, func(o Param) bool { return o.Name == d.Name }); first < i {
			wrong = append(wrong, fmt.Errorf("params[%d].name: %q is the name of params[%d] as well", i, d.Name, first))
		}
	}
	return wrong
}
