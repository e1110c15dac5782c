package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/task/job"
	"millrace/task/node"
)

// Nodes are shown with the actions that are possible, and each action takes effect.
func TestNodes(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/nodes"); !strings.Contains(page, "There are no nodes yet") {
		t.Error("an empty list does not say what to do")
	}
	p.get(404, "/nodes/w1")
	p.get(400, "/nodes/w%201")
	p.node("w1", ready("s1")...)
	page, _ := p.get(200, "/nodes")
	if !strings.Contains(page, "w1</a>") || !strings.Contains(page, ">0/4<") {
		t.Errorf("the list is %s", page)
	}
	page, _ = p.get(200, "/nodes/w1")
	for _, want := range []string{"rack3", "node.registered", `action="../do/node.drain?id=w1"`, `class="f-ready"`, "its probe came through"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a node does not have %q", want)
		}
	}
	if strings.Contains(page, "do/node.undrain") {
		t.Error("a node that serves can be told to serve")
	}
	p.press(303, "/do/node.drain", "id", "w1", "reason", "disk", "grace", "1m", "back", "/nodes/w1")
	if n, err := p.client.Node(t.Context(), "w1"); err != nil || n.Standing.Order != node.OrderDrain || n.Standing.By != "ada" || n.Standing.Grace.Std() != time.Minute {
		t.Errorf("it is %+v, %v", n.Standing, err)
	}
	if page, _ = p.get(200, "/nodes/w1"); !strings.Contains(page, "do/node.undrain") || !strings.Contains(page, "disk") {
		t.Error("a drained node does not say why, or cannot be told to serve")
	}
	last, err := p.client.Last(t.Context())
	if page, _ = p.get(200, "/nodes?at="+strconv.FormatUint(last, 10)); err != nil || !strings.Contains(page, "</span> drained</span>") || strings.Contains(page, "draining</span>") {
		t.Errorf("a drained node is shown by %s: %v", page, err)
	}
	p.press(303, "/do/node.label", "id", "w1", "labels", `{"zone":"eu"}`)
	if n, err := p.client.Node(t.Context(), "w1"); err != nil || n.Labels["zone"] != "eu" {
		t.Errorf("its labels are %v, %v", n.Labels, err)
	}
}

// The time of a node is divided among its states.
func TestStretches(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	record := func(seq uint64, minute int, e node.Event) events.Record {
		at := noon.Add(time.Duration(minute) * time.Minute)
		return events.Record{Seq: seq, Kind: events.KindNode, Stored: at, Fact: events.Fact{ID: strconv.Itoa(int(seq)), At: at, Type: events.TypeOf(e), Node: "w1", Event: e}}
	}
	is := ready("s")
	all := stretches("w1", []events.Record{record(1, 0, is[0]), record(2, 1, is[1]), record(3, 2, is[2]), record(4, 50, node.WentOffline{Session: "s"})}, noon.Add(90*time.Second), noon.Add(time.Hour))
	want := []stretch{{node.Online, noon.Add(90 * time.Second), noon.Add(2 * time.Minute), 2}, {node.Ready, noon.Add(2 * time.Minute), noon.Add(50 * time.Minute), 3}, {node.Offline, noon.Add(50 * time.Minute), noon.Add(time.Hour), 4}}
	if !slices.Equal(all, want) {
		t.Errorf("the stretches are %v, want %v", all, want)
	}
}

// Tasks for one node that takes none are shown where people look for what waits, also if it has never
// registered; and an offline node says which task keeps it.
func TestTasksForAbsentNodes(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("away", append(ready("s1"), node.WentOffline{Session: "s1", Reason: "gone"})...)
	for _, name := range []string{"ghost", "away"} {
		s := command("date")
		s.Nodes, s.NoNode = []string{name}, job.NoNodeWait
		p.submit(s)
	}
	for path, id := range map[string]string{"/": "n-unserved-@ghost", "/queues": "un-ghost", "/nodes": "un-ghost"} {
		page, _ := p.get(200, path)
		row := part(t, page, `id="`+id+`"`, "no worker has registered as node ghost")
		if !strings.Contains(row, "queue%3A%40ghost") || !strings.Contains(page, strings.Replace(id, "ghost", "away", 1)) {
			t.Errorf("%s says of tasks for absent nodes: %s", path, row)
		}
	}
	var page client.NodePage
	err := p.server.Desk.Ask(t.Context(), "ada", rights.NodeList, client.NodeListRequest{}, &page)
	if err != nil || len(page.Unserved) != 2 || page.Unserved[1].Node != "ghost" || page.Nodes[0].KeptBy == "" || !page.Nodes[0].Next.By.IsZero() {
		t.Fatalf("the nodes are %+v, %v", page, err)
	}
	if shown, _ := p.get(200, "/nodes"); !strings.Contains(shown, "does not retire by itself") || !strings.Contains(shown, page.Nodes[0].KeptBy.Short()) {
		t.Error("it is not said what keeps the node")
	}
	if then, _ := p.get(200, fmt.Sprintf("/?at=%d", p.server.Desk.Reached())); !strings.Contains(then, "n-unserved-@ghost") {
		t.Error("the overview of the past has no tasks for absent nodes")
	}
}

// The list has what machines use, sorted by it if asked; what is not known is absent, as in the past.
func TestLoadsOfNodes(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, id := range []node.ID{"w1", "w2", "w3"} {
		p.node(id, ready("s1")...)
	}
	page, _ := p.get(200, "/nodes?sort=memory")
	if strings.Contains(page, "memory<") || strings.Contains(page, "machine's") {
		t.Errorf("there are columns of nothing: %s", page)
	}
	for id, m := range map[node.ID]node.Machine{"w1": {Processors: 2, Busy: 0.35, Memory: 4 << 30, MemoryUsed: 1 << 30}, "w2": {Processors: 8, Busy: 0.1, Memory: 16 << 30, MemoryUsed: 12 << 30}, "w3": {}} {
		if err := p.client.Store().Beat(t.Context(), id, node.Heartbeat{Session: "s1", At: time.Now(), Machine: m}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	p.seen()
	for path, want := range map[string]string{
		"/nodes": "w1 35% of 2 25% of 4.0 GiB w2 10% of 8 75% of 16.0 GiB w3", "/nodes?sort=name": "w1 35% of 2 25% of 4.0 GiB w2 10% of 8 75% of 16.0 GiB w3",
		"/nodes?sort=memory": "w2 10% of 8 75% of 16.0 GiB w1 35% of 2 25% of 4.0 GiB w3", "/nodes?sort=processor": "w1 35% of 2 25% of 4.0 GiB w2 10% of 8 75% of 16.0 GiB w3",
		fmt.Sprintf("/nodes?at=%d", p.server.Desk.Reached()): "w1 w2 w3",
	} {
		page, _ := p.get(200, path)
		var got []string
		for _, is := range regexp.MustCompile(`<tr id="n-(\w+)"|(?:memory|processor) </small>([^<]+)`).FindAllStringSubmatch(page, -1) {
			got = append(got, is[1]+is[2])
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s has %s, want %s", path, text, want)
		}
		if sorted := strings.Count(page, `aria-sort="descending"`); (sorted == 1) != (strings.Contains(path, "sort=memory") || strings.Contains(path, "sort=processor")) {
			t.Errorf("%s says %d times by what it is sorted", path, sorted)
		}
	}
	page, _ = p.get(200, "/nodes?sort=memory")
	p.says(page, `<a href="./nodes?">memory ↓</a>`, `<a href="./nodes?sort=processor">processor</a>`, "the machine's, by the latest heartbeat")
	page, _ = p.get(200, "/nodes/w2")
	p.says(page, "<dt>processor</dt><dd>10% of 8</dd>", "<dt>memory</dt><dd>75% of 16.0 GiB</dd>")
	for range 2 {
		if err := p.askMachines(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	page, _ = p.get(200, "/nodes/w2")
	p.says(page, `aria-label="processor in the last half hour"`, "12.0 GiB <small>at most 12.0 GiB</small>")
	if page, _ := p.get(200, fmt.Sprintf("/nodes/w2?at=%d", p.server.Desk.Reached())); strings.Contains(page, "half hour") {
		t.Error("a node of the past has the lines of now")
	}
}

// The small lines of a machine are those of the last half hour, with gaps, and end with a node that is silent.
func TestSmallLinesOfMachines(t *testing.T) {
	t.Parallel()
	var m machines
	beat := func(busy float64, used int64) {
		m.note(map[node.ID]node.Heartbeat{"a": {Machine: node.Machine{Processors: 2, Busy: busy, Memory: 4 << 20, MemoryUsed: used}}, "mute": {}})
	}
	silent := func() { m.note(nil) }
	beat(0.5, 1<<20)
	if is := m.smalls("a"); is != nil {
		t.Errorf("of one heartbeat there is %+v", is)
	}
	silent()
	if is := m.smalls("a"); is != nil {
		t.Errorf("of a node that is silent there is %+v", is)
	}
	beat(1, 3<<20)
	beat(0, 2<<20)
	want := []small{
		{"processor", "in the last half hour", "0,12 8,1 12,23", "0%", "100%"},
		{"memory", "in the last half hour", "0,18 8,7 12,12", "2.0 MiB", "3.0 MiB"},
	}
	if is := m.smalls("a"); !slices.Equal(is, want) {
		t.Errorf("it is %+v, want %+v", is, want)
	}
	for range machinesKept {
		beat(1, 4<<20)
	}
	if is := m.smalls("a"); !strings.HasPrefix(is[0].Points, "0,1 4,1") || strings.Count(is[0].Points, ",") != machinesKept {
		t.Errorf("after half an hour it is %+v", is)
	}
	for range machinesKept {
		silent()
	}
	if len(m.of) > 0 || m.smalls("mute") != nil {
		t.Errorf("of silent nodes there is %+v", m.of)
	}
}
