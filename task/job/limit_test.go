package job

import (
	"strings"
	"testing"

	"millrace/task/limit"
)

func TestLimitsValidate(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Concurrency: limit.Concurrencies{{Max: -1}}}, "concurrency.max"},
		{Spec{Concurrency: limit.Concurrencies{{Key: "a"}}}, "concurrency.max is missing"},
		{Spec{Concurrency: limit.Concurrencies{{Max: 1, OnLimit: "kill"}}}, "concurrency.on_limit"},
		{Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "{x}"}}}, "concurrency.key"},
		{Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "{params.x"}}}, "concurrency.key"},
		{Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "a\nb"}}}, "concurrency.key"},
		{Spec{Rate: limit.Rates{{Burst: 2}}}, "rate.limit is missing"},
		{Spec{Rate: limit.Rates{{Limit: 2, Per: -1}}}, "rate.per"},
		{Spec{Rate: limit.Rates{{Limit: 2, Per: 1}}}, "rate.limit"},
		{Spec{Rate: limit.Rates{{Limit: 2, Burst: 1 << 30}}}, "rate.burst"},
		{Spec{Unique: Unique{TTL: 1}}, "unique.key is missing"},
		{Spec{Unique: Unique{Key: "a", While: []string{"asleep"}}}, "unique.while"},
		{Spec{Unique: Unique{Key: "a", OnConflict: "x"}}, "unique.on_conflict"},
		{Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "{params.x}/{labels.y}"}}, Rate: limit.Rates{{Limit: 1}}, Unique: Unique{Key: "/{params.z}"}}, ""},
	} {
		c.spec.Handler = "h"
		err := c.spec.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}
