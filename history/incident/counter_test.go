package incident_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/task"
	"millrace/task/limit"
)

// A hidden key of a limit has one name in a file: in the counter, with the period of a second rate
// behind it, and in the scope of the chain.
func TestHiddenCountersNameTheirScopes(t *testing.T) {
	x := incident.NewRedactor([]byte("of a test"))
	name := func(counter string) (is string, scope limit.Scope, place string) {
		f := events.Fact{ID: "01JNAF00000000000000000001", At: time.Unix(1, 0), Scope: limit.ScopeOf(counter), Event: task.Granted{Grants: []task.Grant{{Task: "01JNAT00000000000000000001", Limits: []string{counter}}}}}
		f.Type = events.TypeOf(f.Event)
		raw, err := events.Encode(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Fact(&events.Record{Seq: 1, Kind: events.KindLimit, Place: "mr.admit." + string(f.Scope), Fact: f, Raw: raw})
		if err != nil {
			t.Fatal(err)
		}
		return r.Fact.Event.(task.Granted).Grants[0].Limits[0], r.Fact.Scope, r.Place
	}
	for _, counter := range []string{"key:/acme", "rate:/acme", "rate:/acme@1h", "key:crawl/acme", "rate:crawl/acme@1h", "job:crawl"} {
		is, scope, place := name(counter)
		_, key, keyed := strings.Cut(counter, "/")
		_, hidden, _ := strings.Cut(is, "/")
		if strings.Contains(is, "acme") || scope != limit.ScopeOf(is) || place != "mr.admit."+string(scope) || scope == limit.ScopeOf(counter) && strings.Contains(counter, ":/") {
			t.Errorf("%s is %s, on %s at %s", counter, is, scope, place)
		}
		if keyed && (!events.HiddenText(limit.WithoutTime(hidden)) || strings.HasSuffix(key, "@1h") != strings.HasSuffix(hidden, "@1h")) {
			t.Errorf("%s is %s", counter, is)
		}
	}
}
