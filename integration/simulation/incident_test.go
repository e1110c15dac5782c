package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	look "millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
)

// incident writes a history that has failed into an incident file, and returns the command that
// steps through it.
func (h *history) incident() string {
	file, err := os.CreateTemp("", fmt.Sprintf("millrace-simulation-%d-*.mri", h.seed))
	if err != nil {
		return err.Error()
	}
	details, err := json.Marshal(map[string]any{"seed": h.seed, "weather": fmt.Sprintf("%+v", h.weather)})
	if err == nil {
		err = incident.WriteAll(file, incident.Manifest{Millrace: "simulation", Why: h.failure.Error(), AckWait: ackWait.String(), Details: details}, h.records)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err.Error()
	}
	return "millrace replay " + file.Name()
}

// A failed history is left in an incident file, which says why it failed and which history it was.
func TestFailedHistoriesAreLeftInIncidentFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := play(t, 3, variant{})
	h.failure = errors.New("as a test")
	name, ok := strings.CutPrefix(h.incident(), "millrace replay ")
	data, err := os.ReadFile(name)
	if !ok || err != nil {
		t.Fatal(name, err)
	}
	f, err := incident.Open(data)
	if err != nil || f.Manifest.Why != "as a test" || !strings.Contains(string(f.Manifest.Details), `"seed":3`) {
		t.Fatalf("%+v, %v", f, err)
	}
	i := 0
	for r, err := range f.Facts() {
		if err != nil || !bytes.Equal(r.Raw, h.records[i].Raw) || r.Seq != h.records[i].Seq {
			t.Fatalf("%+v, %v; want %+v", r, err, h.records[i])
		}
		i++
	}
	if i != len(h.records) {
		t.Errorf("%d facts, of %d", i, len(h.records))
	}
}

// incidentOf writes a span of a history into a file and opens it again.
func incidentOf(t *testing.T, records []events.Record, from, to uint64, redact *incident.Redactor) (*incident.Choice, []events.Record) {
	t.Helper()
	c := incident.NewChoice(from, to)
	for i := range records {
		c.See(&records[i])
	}
	var b bytes.Buffer
	w, err := incident.NewWriter(&b, incident.Manifest{})
	for i := range records {
		r := records[i]
		if err != nil || !c.Keeps(&r) {
			continue
		}
		if redact != nil {
			r, err = redact.Fact(&r)
		}
		if err == nil {
			err = w.Fact(&r)
		}
	}
	if err == nil {
		err = w.Close(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := incident.Open(b.Bytes())
	if err != nil || len(f.Missing) > 0 {
		t.Fatal(err, f.Missing)
	}
	var all []events.Record
	for r, err := range f.Facts() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return c, all
}

// bare returns a task's fields that redaction leaves alone.
func bare(k *task.Task) []any {
	return []any{k.ID, k.State, k.Seq, k.Attempt, k.Epoch, k.Node, k.Session, k.Route, k.Due, k.Since, k.Failures, k.Losses, k.Parent, k.Holds, k.Step, k.Exit, k.StartedAt, k.EndedAt}
}

// At any moment of a span, a view of its incident file agrees with a view of the whole log about
// everything that lives in the span, and does not have what does not live in it. A redacted file
// agrees about all that rules decide by.
func TestIncidentsTellWhatTheLogTells(t *testing.T) {
	rules := look.Rules{Task: bounds, Node: node.Settings{TTL: 10 * time.Second}}
	kinds := []variant{{}, {crowded: true}, {windowed: true}, {roomy: true}}
	each(max(min(*historiesFlag, 500)/10, *historiesFlag/100, 4), func(seed uint64) bool {
		h := play(t, seed, kinds[seed%uint64(len(kinds))])
		h.report(t)
		random := rand.New(rand.NewPCG(seed, 5))
		last := h.records[len(h.records)-1].Seq
		from := 1 + random.Uint64N(last)
		to := from + random.Uint64N(last-from+1)
		redactor := incident.NewRedactor([]byte("of a test"))
		c, kept := incidentOf(t, h.records, from, to, nil)
		_, redacted := incidentOf(t, h.records, from, to, redactor)
		if len(redacted) != len(kept) {
			t.Errorf("seed %d: %d facts are redacted to %d", seed, len(kept), len(redacted))
		}
		for range 4 {
			at := look.Moment{Seq: from + random.Uint64N(to-from+1)}
			log, file, hidden := look.Past(h.records, at), look.Past(kept, at), look.Past(redacted, at)
			same := func(what string, ask func(look.View) (any, error)) {
				want, err := ask(log)
				have, err2 := ask(file)
				a, _ := json.Marshal(want)
				b, _ := json.Marshal(have)
				if (err == nil) != (err2 == nil) || !bytes.Equal(a, b) {
					t.Errorf("seed %d, #%d to #%d at #%d, %s: %s, %v; the log says %s, %v", seed, from, to, at.Seq, what, b, err2, a, err)
				}
			}
			for _, kind := range []look.Kind{look.Nodes, look.Queues, look.Definitions} {
				same(kind.String()+"s", func(v look.View) (any, error) {
					p, err := v.List(t.Context(), look.Query{Kind: kind})
					p.Point = look.Point{}
					return p, err
				})
			}
			same("counts", func(v look.View) (any, error) {
				n, err := v.Count(t.Context(), look.Query{Kind: look.Tasks, Filter: look.Filter{States: []task.State{task.Pending, task.Running, task.Retrying, task.Cancelling}}})
				return n.Of, err
			})
			page, err := log.List(t.Context(), look.Query{Kind: look.Tasks, Filter: look.Filter{Limit: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Tasks {
				id := page.Tasks[i].ID
				if !c.Lives(id) {
					if _, err := look.GetTask(t.Context(), file, id); !errors.Is(err, task.ErrUnknown) || !page.Tasks[i].State.Terminal() {
						t.Errorf("seed %d, #%d to #%d at #%d: task %s, which is %s and does not live there: %v", seed, from, to, at.Seq, id, page.Tasks[i].State, err)
					}
					continue
				}
				same("task "+string(id), func(v look.View) (any, error) { return look.GetTask(t.Context(), v, id) })
				same("tree of "+string(id), func(v look.View) (any, error) { return look.Tree(t.Context(), v, v, id) })
				same("why "+string(id), func(v look.View) (any, error) { return look.Why(t.Context(), v, id, rules) })
				k, err := look.GetTask(t.Context(), hidden, id)
				if !reflect.DeepEqual(bare(&k), bare(&page.Tasks[i])) {
					t.Errorf("seed %d, at #%d: redacted, task %s is %+v, %v; it was %+v", seed, at.Seq, id, bare(&k), err, bare(&page.Tasks[i]))
				}
			}
			if t.Failed() {
				return false
			}
		}
		return true
	})
}
