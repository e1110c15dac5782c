package pages

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"millrace/task/param"
	"millrace/task/value"
)

// Kind says how a field is drawn.
type Kind string

// Kinds of fields.
const (
	Text   Kind = "text"
	Lines  Kind = "lines" // JSON
	Choice Kind = "choice"
	Whole  Kind = "whole"
	Number Kind = "number"
	Secret Kind = "secret"
)

// Field is a field of a form.
type Field struct {
	// Name is the parameter's name; Label and About describe it.
	Name, Label, About string
	Kind               Kind
	// Options are the values of a choice.
	Options []string
	// Min and Max bound a number, or the characters of a text; "" for no bound.
	Min, Max string
	// Required tells whether a value must be typed, since there is no default.
	Required bool
	// Was is the value unless another one is typed, and Value the content of the field.
	Was, Value string
	// Wrong says what is wrong with the value.
	Wrong string
}

// Form holds the parameters of a job that can be typed.
type Form struct {
	Fields []Field
	// Declared tells whether the job declares its parameters. If not, others may be given.
	Declared bool
	params   param.Params
}

// newForm makes the form of a job's parameters. now are those that a task has already; nil for a new
// one.
func newForm(p param.Params, now map[string]json.RawMessage) *Form {
	f := &Form{Declared: len(p.Declared) > 0, params: p}
	for i := range p.Declared {
		f.Fields = append(f.Fields, paramField(&p.Declared[i]))
	}
	names := maps.Clone(p.Defaults)
	if names == nil {
		names = map[string]json.RawMessage{}
	}
	if !f.Declared {
		maps.Copy(names, now)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f.Fields = append(f.Fields, Field{Name: name, Label: name, Kind: kindOf(names[name]), Was: textOf(names[name])})
	}
	for i := range f.Fields {
		is := &f.Fields[i]
		if value, given := now[is.Name]; given {
			is.Was, is.Required = textOf(value), false
		}
		is.Value = is.Was
	}
	return f
}

func paramField(d *param.Param) Field {
	f := Field{Name: d.Name, Label: d.Name, About: d.Allowed(), Was: d.DefaultText(), Options: d.Texts(), Required: len(d.Default) == 0 && !d.Optional}
	if d.Title != "" {
		f.Label = d.Title + " (" + d.Name + ")"
	}
	if d.Description != "" {
		f.About = d.Description + ": " + f.About
	}
	bound := func(b *value.Number) string {
		if b == nil {
			return ""
		}
		return string(*b)
	}
	switch {
	case d.Secret:
		f.Kind, f.Options = Secret, nil
	case len(f.Options) > 0:
		f.Kind = Choice
	case d.Type == param.Integer:
		f.Kind, f.Min, f.Max = Whole, bound(d.Min), bound(d.Max)
	case d.Type == param.Number:
		f.Kind, f.Min, f.Max = Number, bound(d.Min), bound(d.Max)
	case d.Type == param.Array, d.Type == param.Object:
		f.Kind = Lines
	default:
		f.Kind = Text
		if d.Type == param.String {
			f.Min, f.Max = bound(d.Min), bound(d.Max)
		}
	}
	return f
}

func kindOf(value json.RawMessage) Kind {
	if strings.ContainsAny(string(value), "{[") && !strings.HasPrefix(string(value), `"`) || len(value) > 80 {
		return Lines
	}
	return Text
}

// textOf returns a value as people type it.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && strings.HasPrefix(strings.TrimSpace(string(value)), `"`) {
		return text
	}
	if file, ok := param.FileOf(value); ok {
		return param.SecretFile + file
	}
	return string(value)
}

// Read reads what was typed, and returns the parameters that it changes. Fields say what is wrong
// with them; fine tells whether nothing is.
func (f *Form) Read(typed func(name string) string) (texts map[string]string, fine bool) {
	texts, fine = map[string]string{}, true
	for i := range f.Fields {
		is := &f.Fields[i]
		if is.Value = strings.ReplaceAll(typed(is.Name), "\r\n", "\n"); is.Value == "" || is.Value == is.Was {
			if is.Required && is.Value == "" {
				is.Wrong, fine = "want "+is.About, false
			}
			continue
		}
		texts[is.Name] = is.Value
		if _, wrong := f.params.Read(nil, map[string]string{is.Name: is.Value}); len(wrong) > 0 && f.Declared {
			is.Wrong, fine = wrong[0].Error(), false
		}
	}
	return texts, fine
}
