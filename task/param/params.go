// Package param holds what the parameters of a job may be: their declarations, and what of a submission fits them. It is pure.
package param

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Params are the parameters of a job's tasks. Either they are defaults of any kind, beside which a submission may
// set any others; or they are declared, and then a submission may set no others, and those only to what they may be.
// In JSON they are an object of defaults or a list of declarations.
type Params struct {
	Defaults map[string]json.RawMessage
	Declared []Param
}

// IsZero tells whether there are none.
func (p Params) IsZero() bool { return len(p.Defaults) == 0 && len(p.Declared) == 0 }

// MarshalJSON writes declarations as a list, and defaults as an object.
func (p Params) MarshalJSON() ([]byte, error) {
	if len(p.Declared) > 0 {
		return json.Marshal(p.Declared)
	}
	return json.Marshal(p.Defaults)
}

// UnmarshalJSON reads a list of declarations, or an object of defaults.
func (p *Params) UnmarshalJSON(data []byte) error {
	*p = Params{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, &p.Declared)
	}
	return json.Unmarshal(data, &p.Defaults)
}

// Values are the values that tasks have if nobody sets others.
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
			all[d.Name] = d.Default
		}
	}
	return all
}

// Find is the declaration of a parameter; nil if there is none.
func (p *Params) Find(name string) *Param {
	i := slices.IndexFunc(p.Declared, func(d Param) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Declared[i]
}

// names are those of the declared parameters, in their order.
func (p *Params) names() []string {
	names := make([]string, len(p.Declared))
	for i := range p.Declared {
		names[i] = p.Declared[i].Name
	}
	return names
}

// Secrets are the names of those whose values name a file on the node.
func (p *Params) Secrets() (names []string) {
	for i := range p.Declared {
		if p.Declared[i].Secret {
			names = append(names, p.Declared[i].Name)
		}
	}
	return names
}

// Read is what a submission sets: values, and texts, which win over those and are read as the declarations have it. It returns
// what is wrong with each: what it is, and what is allowed. What is missing is not its business.
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
	for _, name := range slices.Sorted(maps.Keys(set)) {
		_, known := p.Defaults[name]
		if d := p.Find(name); d != nil {
			if err := d.Check(set[name]); err != nil {
				wrong = append(wrong, err)
			}
		} else if !known {
			wrong = append(wrong, fmt.Errorf("parameter %s is not one of the job's, which are %s", quoted(name), strings.Join(p.names(), ", ")))
		}
	}
	return set, wrong
}

// Missing says of each parameter that has to be set, and neither is nor has a default, what it may be.
func (p *Params) Missing(set map[string]json.RawMessage) (wrong []error) {
	for i := range p.Declared {
		d := &p.Declared[i]
		_, given := set[d.Name]
		if _, known := p.Defaults[d.Name]; !given && !known && !d.Optional && len(d.Default) == 0 {
			wrong = append(wrong, fmt.Errorf("parameter %s is missing: want %s", d.Name, d.Allowed()))
		}
	}
	return wrong
}

// read is a parameter that was given as text: of the kind that its declaration says, else the JSON that it is, or itself.
func (p *Params) read(name, text string) json.RawMessage {
	if d := p.Find(name); d != nil {
		return d.read(text)
	}
	return textValue(text)
}

// Validate says what cannot be declared so; each error begins with its field.
func (p *Params) Validate() (wrong []error) {
	if len(p.Declared) > 0 && len(p.Defaults) > 0 {
		return []error{errors.New("params: they are either defaults or declared, not both")}
	}
	if len(p.Declared) > Max {
		return []error{fmt.Errorf("params: %d are declared, want at most %d", len(p.Declared), Max)}
	}
	for i := range p.Declared {
		d := &p.Declared[i]
		if err := d.validate(); err != nil {
			wrong = append(wrong, fmt.Errorf("params[%d].%w", i, err))
		}
		if first := slices.IndexFunc(p.Declared, func(o Param) bool { return o.Name == d.Name }); first < i {
			wrong = append(wrong, fmt.Errorf("params[%d].name: %q is the name of params[%d] as well", i, d.Name, first))
		}
	}
	return wrong
}
