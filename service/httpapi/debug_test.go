package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"millrace/events"
	"millrace/task/node"
)

// A replay is read in pages, each step with what it changed; whatif decides again.
func TestReplayAndWhatIf(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	all := s.submitted(3)
	s.want(200, "POST", "/api/v1/tasks", `{"id":"01M7Y1TARGQZH7A19RN9D9ZBRP","spec":{"run":{"argv":["date"]}}}`, nil)
	s.want(200, "POST", "/api/v1/tasks/01M7Y1TARGQZH7A19RN9D9ZBRP/cancel", `{"reason":"a"}`, nil)
	type page struct {
		From, To uint64
		Steps    []struct {
			Seq     uint64
			Type    string
			Fact    json.RawMessage
			Changed []struct{ Field string }
			Owed    *struct{ Before, After *struct{ Who string } }
		}
		Next string
	}
	var is page
	var seen []uint64
	for at := "/api/v1/replay?limit=2"; ; at = "/api/v1/replay?limit=2&cursor=" + is.Next {
		is = page{}
		s.want(200, "GET", at, "", &is)
		for _, step := range is.Steps {
			seen = append(seen, step.Seq)
		}
		if is.Next == "" {
			break
		}
	}
	end, err := s.store.Last(t.Context())
	if err != nil || len(seen) == 0 || seen[0] != is.From || seen[len(seen)-1] != end || is.To != end {
		t.Fatalf("the steps are %v, from %d to %d, and the log ends at %d, %v", seen, is.From, is.To, end, err)
	}
	for i := range seen[1:] {
		if seen[i+1] <= seen[i] {
			t.Errorf("the steps are %v", seen)
		}
	}
	is = page{}
	s.want(200, "GET", "/api/v1/replay?task=01M7Y1TARGQZH7A19RN9D9ZBRP", "", &is)
	last := is.Steps[len(is.Steps)-1]
	if last.Type != "task.cancelled" || len(last.Changed) == 0 || last.Owed == nil || last.Owed.Before == nil || !strings.Contains(string(last.Fact), `"reason":"a"`) || is.Next != "" {
		t.Errorf("the last step is %+v", last)
	}
	is = page{}
	if s.want(200, "GET", "/api/v1/replay?from="+itoa(all[1])+"&until="+itoa(all[1]), "", &is); len(is.Steps) != 1 || is.Steps[0].Seq != all[1] {
		t.Errorf("one fact is %+v", is)
	}
	for _, wrong := range []string{"task=01M7Y1TARGQZH7A19RN9D9ZBRP&node=a", "node=nosuch", "cursor=x", "cursor=9-3-5", "from=nonsense", "limit=1001", "until=99999"} {
		s.refused(400, "bad-request", "GET", "/api/v1/replay?"+wrong, "")
	}

	var report struct {
		First, Last uint64
		Decisions   struct{ All, Same int }
		Mistakes    []any
		Simulated   *struct{ From uint64 }
		Interrupted bool
	}
	s.want(200, "POST", "/api/v1/whatif", `{}`, &report)
	if report.First == 0 || report.Last != end || report.Decisions.All != report.Decisions.Same || len(report.Mistakes) > 0 || report.Interrupted {
		t.Errorf("by its own settings it is %+v", report)
	}
	s.want(200, "POST", "/api/v1/whatif", `{"set":["retry.max=5","node_ttl=10s"],"from":"`+itoa(all[1])+`","simulate":true}`, &report)
	if report.Simulated == nil || report.Simulated.From != all[1] {
		t.Errorf("simulated it is %+v", report)
	}
	for _, wrong := range []string{`{"job":"a"}`, `{"set":["nonsense=1"]}`, `{"set":["retry.max"]}`, `{"set":["retry.max=5"],"job":"nosuch"}`, `{"from":"nonsense"}`, `{"until":"99999"}`} {
		s.refused(400, "bad-request", "POST", "/api/v1/whatif", wrong)
	}
}

// A ping tells a node that does not answer from one that is not there, and gc what it would remove.
func TestPingAndSweep(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	recorder := events.Recorder{Log: s.store, Actor: "ada", Now: s.store.Now, NewID: events.NewID}
	if _, _, err := recorder.DoNode(t.Context(), "w1", node.Register{Session: "w1"}); err != nil {
		t.Fatal(err)
	}
	var is struct {
		Nodes []struct {
			Node, Error string
		}
		Answered int
	}
	s.want(200, "GET", "/api/v1/nodes/w1/ping?timeout=1s", "", &is)
	if len(is.Nodes) != 1 || is.Nodes[0].Error == "" || is.Answered != 0 {
		t.Errorf("of a node without a process it is %+v", is)
	}
	s.refused(404, "no-node", "GET", "/api/v1/nodes/nosuch/ping", "")
	s.refused(400, "bad-request", "GET", "/api/v1/pings?timeout=1h", "")
	s.want(200, "GET", "/api/v1/pings", "", &is)

	var swept struct {
		Versions []string
		Chunks   int
	}
	s.want(200, "POST", "/api/v1/files/gc", `{"dry_run":true}`, &swept)
	if swept.Versions == nil || swept.Chunks != 0 {
		t.Errorf("of nothing it is %+v", swept)
	}
	s.refused(400, "bad-request", "POST", "/api/v1/files/gc", `{"older_than":"1m"}`)
	s.refused(400, "bad-request", "POST", "/api/v1/files/gc", `{"keep":-1}`)
}

// Nothing follows what takes reading the whole log.
func TestAnswersThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.submitted(1)
	for _, path := range []string{"/verify", "/diff?at=1", "/replay", "/pings"} {
		s.want(400, "GET", "/api/v1"+path, "", nil, "Accept", "text/event-stream")
		s.want(200, "GET", "/api/v1"+path, "", nil)
	}
}
