package answers

import (
	"cmp"
	"context"
	"errors"

	"millrace/events/jet/definitions"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/value"
)

// changesOf returns the function of an endpoint that lists the changes of a definition, the oldest
// first. none is the error if there is no such definition.
func changesOf(kind string, none error) func(*Service, context.Context, nameRequest) (factPage, error) {
	return func(s *Service, ctx context.Context, r nameRequest) (factPage, error) {
		records, err := view.All(ctx, s.view(), view.Definition(task.Named(kind, r.Name)))
		if err == nil && len(records) == 0 {
			err = &definitions.Absent{Kind: none, Name: r.Name}
		}
		return factPage{Facts: client.ShowFacts(records)}, err
	}
}

// twoRequest names two definitions, or one at two moments.
type twoRequest struct {
	// Name is that of the first definition.
	Name string `json:"name"`
	// With is the other definition; default: the same one.
	With string `json:"with,omitempty"`
	// At is the moment of the first and Until that of the second: a sequence of the log, or a time.
	// Default: now.
	At    string `json:"at,omitempty"`
	Until string `json:"until,omitempty"`
}

func (r *twoRequest) check() error {
	if r.With == "" {
		if r.With = r.Name; r.At == "" && r.Until == "" {
			return errors.New("compare it with another one (with), or with what it was (at)")
		}
	}
	return errors.Join(value.ValidName("definition", r.Name), value.ValidName("definition", r.With))
}

// definedIn reads a definition as a view has it.
func definedIn[D any](ctx context.Context, v view.View, kind, name string, read func(string, task.Definition) (D, error)) (is D, err error) {
	found, err := v.Get(ctx, view.Definition(task.Named(kind, name)))
	if err != nil {
		return is, err
	}
	return read(name, *found.Definition)
}

// definedAt reads a definition as it was at the moment of a request.
func definedAt[D any](ctx context.Context, s *Service, r *definitionRequest, kind string, read func(string, task.Definition) (D, error)) (is D, err error) {
	v, _, err := s.sight(ctx, r.At)
	if err != nil {
		return is, err
	}
	return definedIn(ctx, v, kind, r.Name, read)
}

// differing returns the function of an endpoint that compares two definitions of a kind.
func differing[D any](kind string, read func(string, task.Definition) (D, error)) func(*Service, context.Context, twoRequest) (diffAnswer, error) {
	return func(s *Service, ctx context.Context, r twoRequest) (diffAnswer, error) {
		return between(ctx, s, [2]side{{r.Name, r.At}, {r.With, r.Until}}, func(v view.View, name string) (D, error) {
			return definedIn(ctx, v, kind, name, read)
		}, func(was, is D) ([]view.Change, error) { return view.DiffValues(was, is) })
	}
}

// diffAllRequest names two moments, and chooses the tasks that are compared.
type diffAllRequest struct{ client.DiffRequest }

func (r *diffAllRequest) check() error {
	if r.At == "" {
		return errors.New("at: say which moment to compare from")
	}
	r.Until = cmp.Or(r.Until, view.End)
	return validLimit(&r.Limit)
}

func (s *Service) diffAll(ctx context.Context, r diffAllRequest) (is client.Difference, err error) {
	var both [2]view.Whole
	for i, at := range [2]string{r.At, r.Until} {
		if both[i], _, err = s.then(ctx, at); err != nil {
			return is, err
		}
		p, err := both[i].Point(ctx)
		if err != nil {
			return is, err
		}
		*[2]*client.Place{&is.Was, &is.Is}[i] = client.Place(p)
	}
	is.Difference, err = view.DiffAll(ctx, both[0], both[1], view.Filter{Queue: r.Queue, Job: r.Job}, r.Limit)
	return is, err
}
