package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task/value"
)

func TestCounters(t *testing.T) {
	five := Concurrency{Max: 5}
	keyed := func(key string) Spec { return Spec{Concurrency: Concurrencies{{Max: 2, Key: key}}} }
	for name, c := range map[string]struct {
		work Work
		spec Spec
		want string
	}{
		"none":         {Work{Job: "mail"}, Spec{}, "[]"},
		"job":          {Work{Job: "mail"}, Spec{Concurrency: Concurrencies{five}}, "[job:mail]"},
		"no job":       {Work{Route: "images.5"}, Spec{Concurrency: Concurrencies{five}}, "[queue:images]"},
		"own route":    {Work{Route: "@n1.5"}, Spec{Concurrency: Concurrencies{five}, Place: Place{Queue: "images"}}, "[queue:images]"},
		"parameter":    {Work{Job: "mail", Params: json.RawMessage(`{"to":"acme"}`)}, keyed("{params.to}"), "[key:mail/acme]"},
		"number":       {Work{Job: "mail", Params: json.RawMessage(`{"to":[1,2]}`)}, keyed("x-{params.to}-y"), "[key:mail/x-[1,2]-y]"},
		"label":        {Work{Job: "mail", Labels: map[string]string{"a.b": "c"}}, keyed("{labels.a.b}"), "[key:mail/c]"},
		"common":       {Work{Job: "mail"}, keyed("/shared"), "[key:/shared]"},
		"key, no job":  {Work{Route: "images.5"}, keyed("a"), "[key:queue.images/a]"},
		"rate":         {Work{Job: "mail"}, Spec{Rate: Rates{{Limit: 1}}}, "[rate:mail]"},
		"both":         {Work{Job: "mail"}, Spec{Concurrency: Concurrencies{five}, Rate: Rates{{Limit: 1, Key: "/k"}}}, "[job:mail rate:/k]"},
		"no parameter": {Work{Job: "mail", Params: json.RawMessage(`{"by":1}`)}, keyed("{params.to}"), `concurrency.key: {params.to}: the task has no parameter "to"`},
		"no label":     {Work{Job: "mail"}, Spec{Rate: Rates{{Limit: 1, Key: "{labels.x}"}}}, `rate.key: {labels.x}: the task has no label "x"`},
		"too long":     {Work{Job: "mail", Labels: map[string]string{"x": strings.Repeat("x", 300)}}, keyed("{labels.x}"), `concurrency.key: "{labels.x}" becomes 300 bytes long, want at most 256`},
	} {
		c.work.Spec = &c.spec
		counters, err := c.work.Counters()
		names := []string{}
		for _, counter := range counters {
			names = append(names, counter.Name)
		}
		got := fmt.Sprint(names)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Concurrency: Concurrencies{{Max: -1}}}, "concurrency.max"},
		{Spec{Concurrency: Concurrencies{{Key: "a"}}}, "concurrency.max is missing"},
		{Spec{Concurrency: Concurrencies{{Max: 1, OnLimit: "kill"}}}, "concurrency.on_limit"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "{x}"}}}, "concurrency.key"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "{params.x"}}}, "concurrency.key"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "a\nb"}}}, "concurrency.key"},
		{Spec{Rate: Rates{{Burst: 2}}}, "rate.limit is missing"},
		{Spec{Rate: Rates{{Limit: 2, Per: -1}}}, "rate.per"},
		{Spec{Rate: Rates{{Limit: 2, Per: 1}}}, "rate.limit"},
		{Spec{Rate: Rates{{Limit: 2, Burst: 1 << 30}}}, "rate.burst"},
		{Spec{Unique: Unique{TTL: 1}}, "unique.key is missing"},
		{Spec{Unique: Unique{Key: "a", While: []string{"asleep"}}}, "unique.while"},
		{Spec{Unique: Unique{Key: "a", OnConflict: "x"}}, "unique.on_conflict"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "{params.x}/{labels.y}"}}, Rate: Rates{{Limit: 1}}, Unique: Unique{Key: "/{params.z}"}}, ""},
	} {
		c.spec.Handler = "h"
		err := c.spec.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}

// A bucket admits its burst at once and then one after the other, and what it admits in any
// span is never more than burst and rate allow.
func TestBucket(t *testing.T) {
	r := Rate{Limit: 10, Per: value.Duration(time.Minute), Burst: 3}
	var b Bucket
	now := noon
	if got := b.Left(r, now); got != 3 {
		t.Errorf("untouched, %d are left, want 3", got)
	}
	var at []time.Time
	for i := range 600 {
		now = noon.Add(time.Duration(i) * 100 * time.Millisecond)
		for !b.Opens(r).After(now) {
			if b.Left(r, now) == 0 {
				t.Fatalf("at %v it is open and nothing is left", now)
			}
			b = b.Take(r, now)
			at = append(at, now)
		}
		if b.Left(r, now) != 0 {
			t.Fatalf("at %v it is shut and %d are left", now, b.Left(r, now))
		}
	}
	if len(at) != 3+9 {
		t.Errorf("%d were admitted in a minute, want the burst of 3 and 9 more", len(at))
	}
	until := now.Add(time.Hour)
	if b = b.Pause(r, until); !b.Opens(r).Equal(until) {
		t.Errorf("paused until %v, it opens at %v", until, b.Opens(r))
	}
	if b.Pause(r, now) != b {
		t.Error("a pause that is over shuts it for longer")
	}
}
