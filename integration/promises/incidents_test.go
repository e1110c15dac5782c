package promises

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

var writeIncidents = flag.Bool("write-incidents", false, "write the files in examples/incidents anew")

// reconnection is the log of a node that was cut off and is back, in the making, and of a task that
// is made for it just then.
type reconnection struct {
	t       *testing.T
	records []events.Record
	facts   int
}

// forNode is the task for the node that has just come back; other is one that runs there later.
const (
	forNode = task.ID("01KJN7E0Z06P8RXA7D3Q5VWT2C")
	other   = task.ID("01KJN7GTC81QZ4B9E6M2HS0KFY")
)

// storedAfter is the delay between a fact and its record in the log.
const storedAfter = 200 * time.Microsecond

var midday = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at adds a fact that the log has so long after midday, and returns its sequence.
func (r *reconnection) at(after time.Duration, kind events.Kind, place string, f events.Fact) uint64 {
	r.facts++
	seq := uint64(1048180 + len(r.records))
	f.ID, f.At, f.Type = "01KJN7"+string(rune('A'+r.facts))+"0000000000000000000", midday.Add(after-storedAfter), events.TypeOf(f.Event)
	raw, err := events.Encode(nil, &f)
	if err != nil {
		r.t.Fatal(err)
	}
	r.records = append(r.records, events.Record{Seq: seq, Stored: midday.Add(after), Kind: kind, Place: place, Fact: f, Raw: raw})
	return seq
}

func (r *reconnection) node(after time.Duration, id node.ID, e node.Event) {
	r.at(after, events.KindNode, "mr.node."+string(id), events.Fact{Node: id, Event: e})
}

func (r *reconnection) chain(after time.Duration, id task.ID, actor string, e task.Event) uint64 {
	return r.at(after, events.KindChain, "mr.task."+string(id), events.Fact{Task: id, Actor: actor, Event: e})
}

func (r *reconnection) submit(after time.Duration, id task.ID, s birth.Submission) uint64 {
	birth, err := birth.Of(s, nil, 0, midday.Add(after))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.at(after, events.KindOffer, "mr.queue."+string(birth.Route)+"."+string(id), events.Fact{Task: id, Actor: "kim", Event: birth})
}

// begin records what both histories share: two nodes, one of which is cut off for 12 s, and a task
// for that node 0.3 s after it is back.
func (r *reconnection) begin() (offer uint64) {
	for i, id := range []node.ID{"a", "b"} {
		after := time.Duration(i) * 10 * time.Millisecond
		session := "session-of-" + string(id)
		r.node(after, id, node.Registered{Session: session, Profile: node.Profile{Host: "host-" + string(id), Slots: 2, Queues: []string{"default"}, Probes: true, Commands: true, Version: "v0.1.0", TTL: value.Duration(15 * time.Second)}})
		r.node(after+time.Millisecond, id, node.WentOnline{Session: session, Connection: 1})
		r.node(after+2*time.Millisecond, id, node.BecameReady{Session: session, Connection: 1, Took: value.Duration(time.Millisecond)})
	}
	r.node(9*time.Minute+50*time.Second, "b", node.WentOffline{Session: "session-of-b", Reason: "its heartbeat has run out"})
	r.node(10*time.Minute+2*time.Second, "b", node.WentOnline{Session: "session-of-b", Connection: 2, Reason: "the connection came back"})
	return r.submit(10*time.Minute+2300*time.Millisecond, forNode, birth.Submission{Nodes: []string{"b"}, Spec: &job.Spec{Run: &job.Run{Argv: []string{"crawl", "shop"}}}})
}

func (r *reconnection) ready() {
	r.node(10*time.Minute+6100*time.Millisecond, "b", node.BecameReady{Session: "session-of-b", Connection: 2, Took: value.Duration(4100 * time.Millisecond), Reason: "its probe came through"})
}

func (r *reconnection) runs(after time.Duration, id task.ID, offer uint64) {
	exit := 0
	epoch := r.chain(after, id, "b", task.AttemptStarted{Attempt: 1, Node: "b", Session: "session-of-b", Offer: offer})
	r.chain(after+800*time.Millisecond, id, "b", task.AttemptFinished{Attempt: 1, Epoch: epoch, Exit: &exit})
}

// old records what happens in systems in which a master pushes tasks to every node that is online.
// The message goes out on a dead connection; the master has recorded that the task runs, and never
// looks again. Later tasks run.
func (r *reconnection) old() {
	offer := r.begin()
	r.chain(10*time.Minute+2310*time.Millisecond, forNode, "master", task.AttemptStarted{Attempt: 1, Node: "b", Session: "session-of-b", Offer: offer})
	r.ready()
	r.runs(11*time.Minute+4*time.Millisecond, other, r.submit(11*time.Minute, other, birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"crawl", "news"}}}}))
	r.chain(25*time.Minute, forNode, "kim", task.CancelRequested{Reason: "it has said nothing for a quarter of an hour", Deadline: midday.Add(25*time.Minute + 15*time.Second - storedAfter)})
}

// ours records what happens in Millrace: a node that is online must first prove that work reaches
// it, and fetches the task itself.
func (r *reconnection) ours() {
	offer := r.begin()
	r.ready()
	r.runs(10*time.Minute+6104*time.Millisecond, forNode, offer)
	r.runs(11*time.Minute+4*time.Millisecond, other, r.submit(11*time.Minute, other, birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"crawl", "news"}}}}))
}

// file makes the incident file, with notes.
func (r *reconnection) file(around string, notes ...incident.Note) []byte {
	first, last := r.records[6], r.records[len(r.records)-1]
	c := incident.NewChoice(first.Seq, last.Seq)
	for i := range r.records {
		c.See(&r.records[i])
	}
	m := incident.Manifest{Millrace: "v0.1.0", Made: midday.Add(time.Hour), Around: around, AckWait: "30s", Raw: true,
		From: incident.Point{Seq: first.Seq, Stored: first.Stored}, To: incident.Point{Seq: last.Seq, Stored: last.Stored}}
	m.Tasks, m.AllOf = c.Tasks()
	var b bytes.Buffer
	w, err := incident.NewWriter(&b, m)
	for i := range r.records {
		if err == nil && c.Keeps(&r.records[i]) {
			err = w.Fact(&r.records[i])
		}
	}
	for _, n := range notes {
		if err == nil {
			n.Time, n.By = r.records[n.Seq-1048180].Stored, "kim"
			err = w.Note(n)
		}
	}
	if err == nil {
		err = w.Close(nil)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return b.Bytes()
}

// readIncident reads the manifest, the notes and the facts of an incident file.
func readIncident(t *testing.T, data []byte) (*incident.File, []events.Record) {
	t.Helper()
	f, err := incident.Open(data)
	if err != nil || len(f.Missing) > 0 {
		t.Fatal(f, err)
	}
	var all []events.Record
	for r, err := range f.Facts() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return f, all
}

// The files that docs/history.md walks through are those that this test makes, and they show what
// the page says: when the task is submitted, the node has not yet proved that work reaches it; a
// master pushes the task to it all the same, while in Millrace the node fetches the task itself
// after the proof.
func TestIncidentsOfTheExamples(t *testing.T) {
	t.Parallel()
	old, ours := &reconnection{t: t}, &reconnection{t: t}
	old.old()
	ours.ours()
	for name, want := range map[string][]byte{
		"reconnected-old.mri": old.file("task "+string(forNode), incident.Note{Name: "back", Seq: 1048187, Text: "the node is online again"},
			incident.Note{Name: "handed", Seq: 1048189, Text: "0.3 s later the master hands it the task: reconnected too early?"}),
		"reconnected.mri": ours.file("task "+string(forNode), incident.Note{Name: "back", Seq: 1048187, Text: "the node is online again"}),
	} {
		path := filepath.Join("..", "..", "examples", "incidents", name)
		if *writeIncidents {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		is, records := readIncident(t, have)
		if made, facts := readIncident(t, want); !reflect.DeepEqual(made.Manifest, is.Manifest) || !reflect.DeepEqual(made.Notes, is.Notes) || !reflect.DeepEqual(facts, records) {
			t.Errorf("%s is not what this test makes: go test ./integration/promises -run TestIncidentsOfTheExamples -write-incidents", name)
		}
		born, err := view.Why(t.Context(), view.Past(records, view.Moment{Seq: 1048188}), forNode, view.Rules{Task: duties.Settings{StartDeadline: time.Minute}, Node: node.Settings{TTL: 15 * time.Second}})
		if err != nil || born.State != task.Pending || slices.ContainsFunc(born.Nodes, func(v node.Verdict) bool { return v.Rule == "" }) {
			t.Errorf("%s: when it is made, %+v, %v", name, born, err)
		}
		end, err := view.GetTask(t.Context(), view.Past(records, view.Moment{}), forNode)
		if wanted := map[bool]task.State{true: task.Cancelling, false: task.Finished}[strings.Contains(name, "old")]; err != nil || end.State != wanted {
			t.Errorf("%s: at the end it is %s, %v; want %s", name, end.State, err, wanted)
		}
	}
}
