package pages

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/param"
	"millrace/task/value"
)

// runPage is the form for running a job, or for copying a task with changes.
var runPage = page{name: "run", path: "/run/{of}/{name}", verb: rights.TaskGet, do: doRun, show: showRun}

type runData struct {
	*Form
	// Of is job or task, and Name which one; Verb is the verb to perform.
	Of, Name string
	Verb     rights.Verb
	// Queue, Node, Priority, Delay and More were typed beside the parameters; More is JSON.
	Queue, Node, Priority, Delay, More string
	// WrongMore says what is wrong with More, and Wrong why no task was made.
	WrongMore, Wrong string
}

// runForm finds out what can be typed.
func runForm(ctx context.Context, l *look) (*runData, error) {
	d := &runData{Of: l.r.PathValue("of"), Name: l.r.PathValue("name")}
	var params param.Params
	var now map[string]json.RawMessage
	switch d.Of {
	case "job":
		if err := value.ValidName("job", d.Name); err != nil {
			return nil, client.Wrong(err)
		}
		is, err := l.job(ctx, d.Name)
		if err != nil {
			return nil, err
		}
		params, d.Verb, l.Title = is.Params, rights.TaskSubmit, "Run job "+d.Name
	case "task":
		id, err := task.ParseID(d.Name)
		if err != nil {
			return nil, client.Wrong(err)
		}
		t, err := view.GetTask(ctx, l.View, id)
		if err != nil {
			return nil, err
		}
		d.Verb, l.Title = rights.TaskCopy, "Copy task "+id.Short()
		if len(t.Params) > 0 {
			if err := json.Unmarshal(t.Params, &now); err != nil {
				return nil, value.Plainly(err)
			}
		}
		// The parameters that the job declared then; none if that revision cannot be read.
		if t.Job != "" && l.May(string(rights.JobGet)) {
			var stored definitions.StoredJob
			if l.ask(ctx, rights.JobGet, map[string]any{"name": t.Job, "revision": t.Revision}, &stored) == nil {
				params = stored.Params
			}
		}
	default:
		return nil, answers.ErrNothing
	}
	if !l.caller.Role.May(d.Verb) {
		return nil, answers.ErrRole
	}
	d.Form = newForm(params, now)
	return d, nil
}

// Typed returns the name of a parameter's field in the form.
func (d *runData) Typed(name string) string { return "param." + name }

// showRun shows what can be typed, or was typed and makes no task.
func showRun(ctx context.Context, l *look) (any, error) {
	if l.Data != nil {
		return l.Data, nil
	}
	return runForm(ctx, l)
}

// doRun makes the task of a form, and leads to it.
func doRun(ctx context.Context, l *look) (err error) {
	var d *runData
	if err = l.see(ctx, func(ctx context.Context) error { d, err = runForm(ctx, l); return err }); err != nil {
		return err
	}
	l.Data = d
	request, fine := d.read(l)
	if !fine {
		return nil
	}
	var made struct{ ID string }
	if err := l.ask(ctx, d.Verb, request, &made); err != nil {
		if d.Wrong = err.Error(); answers.ProblemOf(err).Status >= http.StatusInternalServerError {
			return err
		}
		return nil
	}
	l.site.settle(ctx)
	return elsewhere("/tasks/" + made.ID)
}

// read turns what was typed into the request of the verb; fine tells whether nothing is wrong with
// it.
func (d *runData) read(l *look) (request map[string]any, fine bool) {
	typed := l.typed.Get
	d.Queue, d.Node, d.Priority, d.Delay, d.More = typed("queue"), typed("node"), typed("priority"), typed("delay"), typed("more")
	texts, fine := d.Read(func(name string) string { return typed(d.Typed(name)) })
	work := map[string]any{}
	if d.More != "" {
		var more map[string]json.RawMessage
		if err := json.Unmarshal([]byte(d.More), &more); err != nil {
			d.WrongMore, fine = "want a JSON object of names and values", false
		}
		if len(more) > 0 {
			work["params"] = more
		}
	}
	if len(texts) > 0 {
		work["texts"] = texts
	}
	if d.Queue != "" {
		work["queue"] = d.Queue
	}
	if d.Node != "" {
		work["nodes"] = []string{d.Node}
	}
	if n, err := strconv.Atoi(d.Priority); err == nil {
		work["priority"] = n
	}
	if d.Delay != "" {
		work["delay"] = d.Delay
	}
	if d.Of == "job" {
		work["job"] = d.Name
		return work, fine
	}
	return map[string]any{"id": d.Name, "task": work}, fine
}

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
