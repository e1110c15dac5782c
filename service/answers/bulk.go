package answers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
)

// bulkPatience is how long a request works on many tasks. Sent again, the request continues where
// it was.
const bulkPatience = 15 * time.Second

// manyRequest chooses tasks for a bulk command.
type manyRequest struct {
	// Filter chooses them as in a list. It has none of the fields [client.Unchoosing].
	Filter client.ListRequest `json:"filter"`
	// All must be set if the filter holds nothing but states.
	All bool `json:"all,omitempty"`
	// Tasks names the tasks instead of the filter. Tasks in other states than usual for the command
	// are left out.
	Tasks []task.ID `json:"tasks,omitempty"`
	// Reason says why, for the log.
	Reason string `json:"reason,omitempty"`
	// Batch continues an earlier batch. Default: a new one.
	Batch string `json:"batch,omitempty"`
	// DryRun changes nothing: the answer only counts the tasks and names the first ones.
	DryRun bool `json:"dry_run,omitempty"`
	// Limit is how many tasks are changed at most: 1 to 1000. Default 1000.
	Limit int `json:"limit,omitempty"`
}

func (r *manyRequest) check() error {
	if r.Limit == 0 {
		r.Limit = view.MaxLimit
	}
	if r.Limit < 1 || r.Limit > view.MaxLimit {
		return fmt.Errorf("limit is %d, want 1 to %d", r.Limit, view.MaxLimit)
	}
	if len(r.Tasks) > view.MaxLimit {
		return fmt.Errorf("there are %d tasks, want %d at most", len(r.Tasks), view.MaxLimit)
	}
	for i, id := range r.Tasks {
		is, err := task.ParseID(string(id))
		if err != nil {
			return err
		}
		r.Tasks[i] = is
	}
	if r.Batch == "" {
		return nil
	}
	_, err := task.ParseID(r.Batch)
	return err
}

// signalManyRequest chooses tasks that wait for a signal, and gives it to them.
type signalManyRequest struct {
	manyRequest
	answered
}

// answered is what a signal has beside the tasks that get it.
type answered struct {
	// Name is that of the signal that is meant, or of the step; a task that waits for another one is refused. Default:
	// the one that each waits for.
	Name string `json:"name,omitempty"`
	// Data comes with the signal; every task gets it.
	Data json.RawMessage `json:"data,omitempty"`
}

// countManyRequest chooses tasks, as a bulk command does.
type countManyRequest struct {
	// For is the command: cancel, retry, signal, dismiss or undismiss. Tasks that it would leave out are not
	// counted.
	For string `json:"for"`
	// Filter is that of the command; an empty one chooses all.
	Filter client.ListRequest `json:"filter"`
	// Limit is how many tasks the answer names at most: 1 to 1000. Default 1000.
	Limit int `json:"limit,omitempty"`
}

func (r *countManyRequest) check() error {
	is := manyRequest{Limit: r.Limit}
	err := is.check()
	r.Limit = is.Limit
	return err
}

// countMany answers as a dry run of the command does, to callers who may only read.
func (s *Service) countMany(ctx context.Context, r countManyRequest) (client.BulkReport, error) {
	all := []*Many{&cancelMany, &retryMany, &signalMany, &dismissMany, &backMany}
	i := slices.IndexFunc(all, func(m *Many) bool { return m.Name() == r.For })
	if i < 0 {
		return client.BulkReport{}, client.Wrongf("for is %q, want cancel, retry, signal, dismiss or undismiss", r.For)
	}
	return s.many(ctx, all[i], &manyRequest{Filter: r.Filter, All: true, DryRun: true, Limit: r.Limit}, answered{})
}

// read turns the filter into a list request, limited to the states in which the command is usual.
// The error wraps [client.ErrInvalid].
func (r *manyRequest) read(act *Many, now time.Time) (err error) {
	f := &r.Filter
	if err := f.Read(now); err != nil {
		return err
	}
	_, others := f.Choosing()
	switch {
	case len(others) > 0:
		return badRequest{fmt.Errorf("the filter has %s, which is for lists and chooses no tasks: leave it out; how many tasks are changed at most is limit beside the filter", strings.Join(others, ", "))}
	case f.Dead && !act.States[0].Terminal():
		return badRequest{errors.New("dead letters have ended, and this is for tasks that have not")}
	case len(r.Tasks) > 0 && (r.All || !reflect.ValueOf(*f).IsZero()):
		return badRequest{errors.New("say tasks, or a filter, and not both")}
	case !r.All && len(r.Tasks) == 0 && (!f.Dead || act.dead) && !f.Sets(func(k *view.Field) bool { return k.Name != "States" && k.Name != "Dead" && k.Name != "Roots" }):
		return badRequest{errors.New("choose the tasks by a filter, such as {\"queue\":\"crawl\"}, or say \"all\"")}
	}
	if f.States, err = client.StatesFor(f.States, act.States); err != nil {
		return badRequest{err}
	}
	f.Dead = f.Dead || act.dead
	return nil
}

// Many says which tasks a verb for one task changes if filters choose them.
type Many struct {
	// Verb is the request about them, and States are those of the tasks it changes by default.
	Verb   rights.Verb
	States []task.State

	means func(*task.Task) bool // which of those it changes; nil for all
	dead  bool                  // only dead letters
	one   *Endpoint             // what does it to one task
}

// Those that there are.
var (
	cancelMany  = Many{Verb: rights.TasksCancel, States: []task.State{task.Scheduled, task.Held, task.Pending, task.Running, task.Retrying}}
	retryMany   = Many{Verb: rights.TasksRetry, States: []task.State{task.Error, task.Cancelled, task.Abnormal}}
	signalMany  = Many{Verb: rights.TasksSignal, States: []task.State{task.Held}, means: func(t *task.Task) bool { return slices.Contains(t.Holds, task.HoldSignal) }}
	dismissMany = Many{Verb: rights.TasksDismiss, States: []task.State{task.Error, task.Abnormal}, means: (*task.Task).Dead, dead: true}
	backMany    = Many{Verb: rights.TasksBack, States: []task.State{task.Error, task.Abnormal}, means: func(t *task.Task) bool { return t.Letter() != "" && t.Dismissed != nil }}
)

// Name is how requests name it: cancel, retry, signal, dismiss or undismiss.
func (m *Many) Name() string { return strings.TrimPrefix(string(m.Verb), "tasks.") }

// Leaves tells which listed tasks it leaves out, for [client.Bulk].
func (m *Many) Leaves(t *task.Task) bool { return m.means != nil && !m.means(t) }

// many returns the endpoint that does to all tasks that a filter chooses what this one does to one, with its
// buttons.
func (e *Endpoint) many(m *Many, about string, buttons ...Button) []*Endpoint {
	if m.one = e; e.Command != nil {
		e.Command.Many = m
	}
	all := on(m.Verb, about, func(s *Service, ctx context.Context, r manyRequest) (client.BulkReport, error) {
		return s.many(ctx, m, &r, answered{})
	})
	if _, data := e.Request.FieldByName("Data"); data {
		all = on(m.Verb, about, func(s *Service, ctx context.Context, r signalManyRequest) (client.BulkReport, error) {
			if len(r.Data) > job.MaxInputs {
				return client.BulkReport{}, badRequest{fmt.Errorf("data has %d bytes, want at most %d", len(r.Data), job.MaxInputs)}
			}
			return s.many(ctx, m, &r.manyRequest, r.answered)
		})
	}
	all.at("POST /tasks/" + m.Name())
	for _, b := range buttons {
		all.button(b)
	}
	return []*Endpoint{e, all}
}

// do changes one task.
func (m *Many) do(s *Service, ctx context.Context, id task.ID, reason string, with answered) (*task.Task, error) {
	r := reflect.New(m.one.Request)
	r.Elem().FieldByName("ID").SetString(string(id))
	r.Elem().FieldByName("Reason").SetString(reason)
	if with.Data != nil {
		r.Elem().FieldByName("Data").SetBytes(with.Data)
	}
	if with.Name != "" {
		r.Elem().FieldByName("Name").SetString(with.Name)
	}
	answer, err := m.one.act(s, ctx, r.Interface())
	t, _ := answer.(task.Task)
	return &t, err
}

func (s *Service) many(ctx context.Context, act *Many, r *manyRequest, with answered) (client.BulkReport, error) {
	err := r.read(act, s.now())
	if err != nil {
		return client.BulkReport{}, err
	}
	if r.Filter.AtLeast, err = s.Client.Last(ctx); err != nil {
		return client.BulkReport{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	b := client.Bulk{Request: r.Filter, List: s.listed, Most: r.Limit, Leave: act.Leaves}
	if len(r.Tasks) > 0 {
		b.List = s.named(r.Tasks)
		b.Leave = func(t *task.Task) bool { return !slices.Contains(r.Filter.States, t.State) || act.Leaves(t) }
	}
	if r.DryRun {
		if len(r.Tasks) == 0 && !r.Filter.Doubted && len(r.Filter.Records) == 0 && (act.means == nil || act.dead) {
			return s.foresee(ctx, &r.Filter, r.Limit)
		}
		b.Most = 0
		return look(ctx, &b, r.Limit)
	}
	in := *s
	in.Client = s.Client.InBatch(cmp.Or(r.Batch, events.NewID(s.Client.Now())))
	b.Do = func(ctx context.Context, t task.Task) (*task.Task, error) {
		return act.do(&in, ctx, t.ID, r.Reason, with)
	}
	return b.Run(ctx, in.Client.Batch())
}

// foresee has the read model count the tasks that a filter chooses, and names the first of them. If
// counting takes too long, the report says that it was interrupted.
func (s *Service) foresee(ctx context.Context, f *client.ListRequest, most int) (client.BulkReport, error) {
	r := client.BulkReport{DryRun: true, States: map[string]int{}, Tasks: []task.ID{}, Refused: []client.Refusal{}}
	first := *f
	first.Limit = most
	page, err := s.list(ctx, first)
	if err != nil {
		return r, err
	}
	for i := range page.Tasks {
		r.Tasks = append(r.Tasks, page.Tasks[i].ID)
		r.States[page.Tasks[i].State.String()]++
	}
	r.Chosen, r.Seq = len(page.Tasks), page.Seq
	if page.Next == "" {
		return r, nil
	}
	counts, err := s.view().Count(ctx, view.Query{Kind: view.Tasks, Filter: *page.filter, AtLeast: page.Seq})
	if err != nil {
		if r.Interrupted = ctx.Err() != nil; r.Interrupted {
			err = nil
		}
		return r, err
	}
	clear(r.States)
	for state, n := range counts.States() {
		r.States[state.String()] = n
	}
	r.Chosen, r.Seq = counts.All(), counts.Point.Seq
	return r, nil
}

// look counts the tasks, as far as time allows, and names the first of them.
func look(ctx context.Context, b *client.Bulk, most int) (client.BulkReport, error) {
	var first []task.ID
	r, err := b.Look(ctx, func(tasks []task.Task) error {
		for i := range tasks[:min(len(tasks), most-len(first))] {
			first = append(first, tasks[i].ID)
		}
		return nil
	})
	r.Tasks = append(r.Tasks, first...)
	if r.Interrupted = ctx.Err() != nil && r.Seq > 0; r.Interrupted {
		err = nil
	}
	return r, err
}

// named returns a lister of tasks by their ids, on one page.
func (s *Service) named(ids []task.ID) func(context.Context, client.ListRequest) (client.ListPage, error) {
	return func(ctx context.Context, r client.ListRequest) (client.ListPage, error) {
		page := client.ListPage{}
		page.Seq = r.AtLeast
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			t, err := view.GetTask(ctx, s.view(), id)
			if err != nil {
				return page, err
			}
			page.Tasks = append(page.Tasks, t)
		}
		return page, nil
	}
}

// listed returns a page of tasks without the service's own fields.
func (s *Service) listed(ctx context.Context, r client.ListRequest) (client.ListPage, error) {
	page, err := s.list(ctx, r)
	return page.ListPage, err
}

func (s *Service) purgeQueue(ctx context.Context, r client.Purge) (client.BulkReport, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	return s.Client.PurgeQueue(ctx, &r, s.listed)
}
