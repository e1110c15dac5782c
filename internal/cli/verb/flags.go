package verb

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"millrace/internal/cli/settings"
	"millrace/projections/view"
	"millrace/task/placement"
	"millrace/task/value"
)

// flags defines the flags of a request's fields.
func (m *command) flags(request reflect.Value) {
	for _, f := range reflect.VisibleFields(request.Type()) {
		field := request.FieldByIndex(f.Index)
		if f.Tag.Get("args") != "" {
			m.extra = field
		}
		if name := f.Tag.Get("flag"); name != "" {
			m.flag(name, f.Tag, field.Addr().Interface())
		}
	}
}

// flag defines the flag of one field.
func (m *command) flag(name string, tag reflect.StructTag, field any) {
	fs, usage := m.cobra.Flags(), strings.NewReplacer("{", "`", "}", "`").Replace(tag.Get("usage"))
	switch field := field.(type) {
	case *string:
		preset := ""
		if name == "reason" {
			preset = m.is.Command.Reason
		}
		fs.StringVar(field, name, preset, usage)
	case *[]string:
		fs.StringSliceVar(field, name, nil, usage)
	case *map[string]string:
		texts := fs.StringArray(name, nil, usage)
		m.late = append(m.late, func() (err error) {
			*field, err = settings.Pairs(name, *texts)
			return err
		})
	case *int:
		fs.IntVar(field, name, 0, usage)
	case *bool:
		fs.BoolVar(field, name, false, usage)
	case *value.Duration:
		fs.Var(&span{field: field, zero: tag.Get("zero")}, name, usage)
	case *json.RawMessage:
		text := fs.String(name, "", usage)
		m.late = append(m.late, func() (err error) {
			if *text != "" {
				if *field, err = settings.Body(*text, m.In); err != nil {
					err = fmt.Errorf("--%s: %w", name, err)
				}
			}
			return err
		})
	case *time.Time:
		at := &moment{field: field, now: func() time.Time { return m.Now() }}
		fs.Var(at, name, usage)
		m.late = append(m.late, func() error { // by the log's time
			if at.text == "" {
				return nil
			}
			return at.Set(at.text)
		})
	default:
		value.Assert(false, "%s: no flag has the type %T", name, field)
	}
}

// span is the flag of a duration. What 0 stands for says the tag zero: another one, or nothing.
type span struct {
	settings.Span
	field *value.Duration
	zero  string
}

func (f *span) Set(s string) (err error) {
	if err := f.Span.Set(s); err != nil {
		return err
	}
	d := f.D
	if d == 0 && f.zero != "" {
		if d, err = value.ParseDuration(f.zero); err != nil {
			return errors.New("want more than 0")
		}
	}
	*f.field = value.Duration(d)
	return nil
}

// moment is the flag of a time to come: so much later than now, or a time as it is printed.
type moment struct {
	text  string
	field *time.Time
	now   func() time.Time
}

func (f *moment) String() string { return f.text }
func (f *moment) Type() string   { return "time" }
func (f *moment) Set(s string) (err error) {
	f.text = s
	if d, is := value.ParseDuration(s); is == nil {
		*f.field = f.now().Add(d)
		return nil
	}
	*f.field, err = view.ParseFuture(s, f.now())
	return err
}

// labelChanges parses KEY=VALUE, which sets a label, and KEY-, which removes it: nil.
func labelChanges(args []string) (map[string]*string, error) {
	changes := map[string]*string{}
	for _, arg := range args {
		set := map[string]*string{}
		if name, removes := strings.CutSuffix(arg, "-"); removes && name != "" && !strings.Contains(arg, "=") {
			set[name] = nil
		} else if labels, err := placement.ParseLabels([]string{arg}); err != nil {
			return nil, fmt.Errorf("%w, or NAME- to remove it", err)
		} else {
			for name, value := range labels {
				set[name] = &value
			}
		}
		for name, value := range set {
			if _, twice := changes[name]; twice {
				return nil, fmt.Errorf("label %s is there twice", name)
			}
			changes[name] = value
		}
	}
	return changes, nil
}
