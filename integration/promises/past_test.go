package promises

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
)

// folded is the state after some messages of a log. Its fold shares no code with Millrace: it knows
// a few types of facts, and reads their JSON.
type folded struct {
	Tasks  map[string]string // id to state
	Queue  map[string]string // by task
	Node   map[string]string // by task, that of its latest attempt
	Counts map[string]int
	// Queues count tasks by "name/state", and have "name/paused". Nodes say how each node is
	// connected, and how many attempts it runs.
	Queues map[string]int
	Nodes  map[string]string
	// InUse and Waiting count the tasks that run and wait under the limit of the job narrow.
	InUse, Waiting int
	Jobs           map[string]int // revisions
	Schedules      map[string]bool
}

// line is of an export.
type line struct {
	Seq  uint64         `json:"seq"`
	Body map[string]any `json:"body"`
}

func linesIn(t *testing.T, export string) (all []line) {
	t.Helper()
	for text := range strings.Lines(export) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Seq > 0 {
			all = append(all, l)
		}
	}
	return all
}

// foldOf adds up the lines up to a sequence.
func foldOf(lines []line, until uint64) folded {
	f := folded{
		Tasks: map[string]string{}, Queue: map[string]string{}, Node: map[string]string{}, Counts: map[string]int{}, Queues: map[string]int{},
		Nodes: map[string]string{}, Jobs: map[string]int{}, Schedules: map[string]bool{},
	}
	granted, narrow, paused := map[string]bool{}, map[string]bool{}, map[string]bool{}
	link := map[string]string{}
	for _, l := range lines {
		if l.Seq > until {
			break
		}
		text := func(name string) string { s, _ := l.Body[name].(string); return s }
		id := text("task")
		switch kind := text("type"); kind {
		case "task.submitted":
			if f.Tasks[id] != "" {
				break // a second birth counts for nothing
			}
			route, _, _ := strings.Cut(text("route"), ".")
			f.Tasks[id], f.Queue[id], narrow[id] = "pending", route, text("job") == "narrow"
			if l.Body["holds"] != nil || narrow[id] {
				f.Tasks[id] = "held"
			}
			if l.Body["due"] != nil {
				f.Tasks[id] = "scheduled"
			}
		case "limit.granted":
			for _, g := range l.Body["grants"].([]any) {
				granted[g.(map[string]any)["task"].(string)] = true
			}
		case "task.queued", "task.due":
			f.Tasks[id] = "pending"
		case "attempt.started":
			f.Tasks[id], f.Node[id] = "running", text("node")
		case "attempt.finished":
			f.Tasks[id] = "finished"
		case "attempt.failed":
			f.Tasks[id] = "error"
			if l.Body["retry"] != nil {
				f.Tasks[id] = "retrying"
			}
		case "task.cancel_requested":
			f.Tasks[id] = "cancelling"
		case "task.cancelled":
			f.Tasks[id] = "cancelled"
		case "queue.paused", "queue.resumed":
			paused[text("queue")] = kind == "queue.paused"
		case "node.ready", "node.online", "node.offline", "node.registered":
			link[text("node")] = map[string]string{"node.ready": "ready", "node.online": "online"}[kind]
		case "definition.applied", "definition.removed":
			switch def, name, _ := strings.Cut(text("def"), "."); def {
			case "job":
				revision, _ := l.Body["revision"].(float64)
				f.Jobs[name] = int(revision)
			case "schedule":
				f.Schedules[name] = kind == "definition.applied"
			}
		}
	}
	running := map[string]int{}
	for id, state := range f.Tasks {
		f.Counts[state]++
		f.Queues[f.Queue[id]+"/"+state]++
		if state == "running" || state == "cancelling" {
			running[f.Node[id]]++
		}
		ended := slices.Contains([]string{"finished", "error", "cancelled"}, state)
		switch {
		case !narrow[id] || ended:
		case granted[id]:
			f.InUse++
		default:
			f.Waiting++
		}
	}
	for q, is := range paused {
		if is {
			f.Queues[q+"/paused"] = 1
		}
	}
	for n, state := range link {
		f.Nodes[n] = fmt.Sprintf("%s, %d run", cmp.Or(state, "offline"), running[n])
	}
	maps.DeleteFunc(f.Schedules, func(_ string, is bool) bool { return !is })
	return f
}

// shown is the state that the commands show as of a sequence.
func shown(p *harness.Place, seq uint64) folded {
	p.Helper()
	f := folded{
		Tasks: map[string]string{}, Queue: map[string]string{}, Node: map[string]string{}, Counts: map[string]int{}, Queues: map[string]int{},
		Nodes: map[string]string{}, Jobs: map[string]int{}, Schedules: map[string]bool{},
	}
	ask := func(into any, args ...string) {
		p.Helper()
		if err := json.Unmarshal([]byte(p.Run(append(args, "--at", fmt.Sprint(seq), "-o", "json")...)), into); err != nil {
			p.Fatal(args, err)
		}
	}
	var tasks struct {
		Tasks []struct {
			ID, State, Route, Node string
		}
		Counts map[string]int
	}
	ask(&tasks, "task", "ls", "--counts", "--limit", "500")
	for _, t := range tasks.Tasks {
		queue, _, _ := strings.Cut(t.Route, ".")
		f.Tasks[t.ID], f.Queue[t.ID] = t.State, queue
		if t.Node != "" {
			f.Node[t.ID] = t.Node
		}
	}
	f.Counts = tasks.Counts
	maps.DeleteFunc(f.Counts, func(_ string, n int) bool { return n == 0 })
	var queues struct {
		Queues []struct {
			Name   string
			Paused any
			States map[string]int
		}
	}
	ask(&queues, "queue", "ls")
	for _, q := range queues.Queues {
		for state, n := range q.States {
			f.Queues[q.Name+"/"+state] = n
		}
		if q.Paused != nil {
			f.Queues[q.Name+"/paused"] = 1
		}
	}
	var nodes struct {
		Nodes []struct {
			ID, Link string
			Running  int
		}
	}
	ask(&nodes, "node", "ls")
	for _, n := range nodes.Nodes {
		f.Nodes[n.ID] = fmt.Sprintf("%s, %d run", n.Link, n.Running)
	}
	var limits struct {
		Counters []struct {
			Name    string
			InUse   int `json:"in_use"`
			Waiting int
		}
	}
	ask(&limits, "limit", "ls")
	for _, c := range limits.Counters {
		if c.Name == "job:narrow" {
			f.InUse, f.Waiting = c.InUse, c.Waiting
		}
	}
	var jobs []struct {
		Name     string
		Revision int
	}
	ask(&jobs, "job", "ls")
	for _, j := range jobs {
		f.Jobs[j.Name] = j.Revision
	}
	var schedules []struct{ Name string }
	ask(&schedules, "schedule", "ls")
	for _, s := range schedules {
		f.Schedules[s.Name] = true
	}
	return f
}

// The commands and the service over HTTP show at random sequences what an independent fold of the log
// up to there shows. The log has an unreadable message, a fact of an unknown type, and an id with two births.
func TestThePastIsTheFoldOfWhatWasBefore(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Dev("--name", "here")
	c := p.Connect()
	p.Write("narrow.yaml", "name: narrow\nconcurrency: {max: 1}\nrun: 'true'\n")
	p.Write("changed.yaml", "name: narrow\ntitle: again\nconcurrency: {max: 1}\nrun: 'true'\n")
	p.Run("job", "apply", "-f", "narrow.yaml")
	p.Run("run", "narrow", "--count", "6", "--wait")
	p.Try("run", "--wait", "--retries", "1", "--shell", "exit 3")
	p.Run("queue", "pause", "later", "--reason", "not now")
	waits := p.Submit("exit 0", "--queue", "later")
	p.Run("schedule", "add", "yearly", "--cron", "0 0 1 1 *", "narrow")
	nc := p.Dial()
	second := `{"type":"task.submitted","v":1,"id":"01JNAF00000000000000000009","at":"2026-03-01T12:00:00Z","task":"` + string(waits) + `","spec":{"handler":"other"},"route":"elsewhere.5"}`
	for subject, text := range map[string]string{
		"mr.task." + string(waits): "no fact", "mr.node.here": `{"type":"node.flew","v":1,"id":"01JNAF00000000000000000008","at":"2026-03-01T12:00:00Z","node":"here"}`,
		"mr.queue.elsewhere.5." + string(waits): second,
	} {
		if _, err := nc.Request(subject, []byte(text), harness.Patience); err != nil {
			t.Fatal(err)
		}
	}
	p.Run("job", "apply", "-f", "changed.yaml")
	p.Run("run", "narrow", "--count", "2", "--wait")
	p.Run("node", "cordon", "here")
	cancelled := p.Submit("exit 0", "--delay", "1h")
	p.Run("task", "cancel", string(cancelled))
	p.Run("queue", "resume", "later")
	p.Run("schedule", "rm", "yearly", "--yes")
	p.Run("node", "uncordon", "here")
	p.Run("run", "--count", "3", "--wait", "--", "true")
	p.Await(c, waits, task.Pending)

	lines := linesIn(t, p.Run("events", "export"))
	if all := foldOf(lines, lines[len(lines)-1].Seq); len(all.Tasks) != 14 || all.Counts["finished"] != 11 {
		t.Fatalf("the log is not the one that was meant: %+v", all)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 15))
	moments := 3
	if *harness.Long {
		moments = 12
	}
	for _, i := range append(random.Perm(len(lines))[:moments], len(lines)-1) {
		seq := lines[i].Seq
		have, want := shown(p, seq), foldOf(lines, seq)
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("as of #%d (seed %d):\nhave %+v\nwant %+v", seq, seed, have, want)
		}
		if over := overHTTP(p, seq); !reflect.DeepEqual(over, want.Tasks) {
			t.Fatalf("over HTTP, as of #%d (seed %d):\nhave %+v\nwant %+v", seq, seed, over, want.Tasks)
		}
	}
}

// overHTTP returns the states of all tasks as of a sequence from the service over HTTP.
func overHTTP(p *harness.Place, seq uint64) map[string]string {
	p.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(p.Path("data/" + name))
		if err != nil {
			p.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, fmt.Sprintf("%s/api/v1/tasks?limit=500&at=%d", read("http.url"), seq), http.NoBody)
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+read("http.token"))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	var page struct{ Tasks []struct{ ID, State string } }
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil || answer.StatusCode != http.StatusOK {
		p.Fatal(answer.Status, err)
	}
	states := map[string]string{}
	for _, t := range page.Tasks {
		states[t.ID] = t.State
	}
	return states
}
