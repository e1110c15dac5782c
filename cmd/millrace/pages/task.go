package pages

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"millrace/cmd/millrace/told"
	"millrace/events"
	"millrace/jet/roles"
	"millrace/task"
	"millrace/task/output"
	"millrace/view"
)

var (
	taskPage    = page{name: "task", path: "/tasks/{id}", verb: roles.TaskGet, show: showTask, inFiles: true}
	comparePage = page{name: "compare", path: "/tasks/{id}/compare", verb: roles.TaskDiff, show: showComparison}
)

// Bounds of what the page of a task shows.
const (
	shownLines   = 200
	shownRecords = 50
	shownFacts   = 200
)

type taskData struct {
	task.Task
	Why      *view.Explanation
	Duty     string
	WhyWrong panel
	Live     *output.Live
	Lanes    []lane
	From, To time.Time
	Tries    []task.Try
	Late     []told.LateWord
	Facts    []fact
	// Older is how many facts are not shown.
	Older   int
	Output  outputPanel
	Records recordsPanel
	// Signals is whether it waits for a signal.
	Signals bool
}

// lane is a line of the timeline, its bars in thousandths of the whole.
type lane struct {
	Name  string
	State task.State
	Took  time.Duration
	Bars  []bar
	// Waits are the thin bars of a lane of a whole, and Link are the parts of the path to its task.
	Waits []bar
	Link  []string
}

type bar struct {
	X, Width float64
	Seq      uint64
	Title    string
	State    string // whose colour it has, if not that of its line
}

// fact is a fact about the task.
type fact struct {
	Seq                             uint64
	At                              time.Time
	Type, About, Says, Actor, Cause string
	CauseSeq                        uint64
}

type recordsPanel struct {
	panel
	Columns []string
	Rows    [][]string
	More    bool
}

func showTask(ctx context.Context, l *look) (any, error) {
	id, err := taskIn(l.r)
	if err != nil {
		return nil, err
	}
	records, err := view.All(ctx, l.View, view.Task(id))
	if err != nil {
		return nil, err
	}
	d := &taskData{Task: events.FoldTask(id, records), Tries: told.Tries(records), Late: told.LateWords(records)}
	l.Title = "Task " + id.Short()
	if d.Job != "" {
		l.Title += " of " + d.Job
	}
	if l.May(string(roles.TaskWhy)) {
		if d.Why, err = view.Why(ctx, l.View, id, l.Rules); err == nil {
			d.Duty = dutyOf(d.Why, l)
		}
		d.WhyWrong.fail(err)
	}
	if live, err := l.Sight.Live(ctx, id); err == nil && live.Epoch == d.Epoch && d.Task.Live() {
		d.Live = &live
	}
	d.timeline(view.Phases(records, l.Now))
	if l.May(string(roles.TaskEvents)) {
		d.Facts, d.Older = factsOf(records)
	}
	d.Signals = d.State == task.Held && len(d.Holds) > 0
	if l.Live {
		return d, nil // what follows has its own stream, or stays as it is
	}
	if err := d.Output.find(ctx, l, &d.Task); err != nil {
		return nil, err
	}
	d.Records.find(ctx, l, id)
	return d, nil
}

// dutyOf says in a sentence who must act next, by when, and what follows otherwise.
func dutyOf(e *view.Explanation, l *look) string {
	if e.State.Terminal() {
		if e.State == task.Error || e.State == task.Abnormal {
			return "It has ended, and nobody will do anything by himself. To retry it gives it another life."
		}
		return "It has ended. Nobody has to do anything."
	}
	who, what := e.Who, e.What
	if e.Limits != nil {
		what = told.LimitDuty(&e.Folded, e.Limits, l.Now)
	}
	if who == "server" {
		who = "The NATS server"
	}
	text := capital(who) + " must act: " + what
	if !e.By.IsZero() {
		text += "; by " + e.By.UTC().Format("15:04:05") + " UTC"
		if e.Overdue {
			text += ", which is overdue"
		}
	}
	if e.Else != "" {
		text += "; otherwise " + e.Else
	}
	return text + "."
}

// timeline lays phases out.
func (d *taskData) timeline(phases []view.Phase) {
	if len(phases) == 0 {
		return
	}
	d.From, d.To = phases[0].From, phases[len(phases)-1].To
	whole := max(d.To.Sub(d.From), time.Millisecond)
	at := func(t time.Time) float64 { return float64(t.Sub(d.From)) / float64(whole) * 1000 }
	for _, of := range told.Lanes(phases) {
		row := lane{Name: of.Name, State: told.PhaseState(of.Phases[0].Name), Took: of.Took()}
		for _, p := range of.Phases {
			x := min(at(p.From), 998)
			row.Bars = append(row.Bars, bar{X: x, Width: max(at(p.To)-x, 2), Seq: p.Seq, Title: of.Name + ": " + told.Span(p.To.Sub(p.From))})
		}
		d.Lanes = append(d.Lanes, row)
	}
}

// factsOf are the latest facts, the newest first, and how many there are before them.
func factsOf(records []events.Record) (facts []fact, older int) {
	for i := len(records) - 1; i >= 0 && len(facts) < shownFacts; i-- {
		facts = append(facts, factOf(&records[i]))
	}
	return facts, len(records) - len(facts)
}

func factOf(r *events.Record) fact {
	return fact{Seq: r.Seq, At: told.FactTime(r), Type: told.FactType(r), About: told.AttemptAndNode(r), Says: told.FactDetails(r), Actor: told.Actor(r)}
}

func (p *recordsPanel) find(ctx context.Context, l *look, id task.ID) {
	if l.Past || !l.May(string(roles.TaskRecords)) {
		return // when each was produced is not recorded
	}
	items, more, err := l.Kept(ctx, id, shownRecords)
	p.fail(err)
	p.More = more || len(items) > shownRecords
	p.Columns, p.Rows = tableOf(items[:min(len(items), shownRecords)])
}

// tableOf lays records out: a column for each key of those that are objects, in the order in which they come.
func tableOf(items []json.RawMessage) (columns []string, rows [][]string) {
	at := map[string]int{}
	for _, item := range items {
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil || fields == nil {
			fields = map[string]json.RawMessage{"": item}
		}
		for _, name := range keysOf(item, fields) {
			if _, there := at[name]; !there {
				at[name] = len(columns)
				columns = append(columns, name)
			}
		}
	}
	for _, item := range items {
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil || fields == nil {
			fields = map[string]json.RawMessage{"": item}
		}
		row := make([]string, len(columns))
		for name, value := range fields {
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value)
			}
			row[at[name]] = text
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// keysOf are the keys of an object in the order in which they stand there.
func keysOf(item json.RawMessage, fields map[string]json.RawMessage) (keys []string) {
	if _, plain := fields[""]; plain && len(fields) == 1 {
		return []string{""}
	}
	d := json.NewDecoder(strings.NewReader(string(item)))
	_, _ = d.Token() // it was read before
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return keys
		}
		name, _ := key.(string) // keys are
		keys = append(keys, name)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return keys
		}
	}
	return keys
}

type comparison struct {
	ID, With task.ID
	// From and Until are moments of the task, if it is compared with itself.
	From, Until string
	Changes     []view.Change
	Wrong       string
	Asked       bool
}

// showComparison says how a task differs from another one, or from what it was.
func showComparison(ctx context.Context, l *look) (any, error) {
	id, err := taskIn(l.r)
	if err != nil {
		return nil, err
	}
	l.Title = "Compare task " + id.Short()
	d := &comparison{ID: id, From: l.Asked("from"), Until: l.Asked("until")}
	request := map[string]string{"id": string(id)}
	switch with := strings.TrimSpace(l.Asked("with")); {
	case with != "":
		d.With, d.Asked = task.ID(strings.ToUpper(with)), true
		request["with"] = string(d.With)
	case d.From != "":
		d.Asked = true
		request["at"] = d.From
		if d.Until != "" {
			request["until"] = d.Until
		}
	default:
		return d, nil
	}
	var answer struct{ Changes []view.Change }
	if err := l.ask(ctx, roles.TaskDiff, request, &answer); err != nil {
		d.Wrong = err.Error()
	}
	d.Changes = answer.Changes
	return d, nil
}
