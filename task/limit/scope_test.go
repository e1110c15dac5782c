package limit

import (
	"strings"
	"testing"

	"millrace/task/value"
)

func TestScopeOf(t *testing.T) {
	common := func(key string) Scope { return Scope("key." + value.Mark(key)) }
	for counter, want := range map[string]Scope{
		"job:mail":                       "job.mail",
		"key:mail/acme":                  "job.mail",
		"key:mail/a/b@1m":                "job.mail",
		"rate:mail":                      "job.mail",
		"rate:mail@1h0m0s":               "job.mail",
		"rate:mail/acme":                 "job.mail",
		"queue:images":                   "queue.images",
		"queue:@n1":                      "queue.@n1",
		"queue:~0a":                      "queue.~0a",
		"key:queue.images/a":             "queue.images",
		"rate:queue.images@1m0s":         "queue.images",
		"rate:queue:images":              "queue.images",
		"rate:queue:images#17":           "queue.images",
		"rate:queue:images#17/images":    "queue.images",
		"key:/shared":                    common("/shared"),
		"rate:/shared":                   common("/shared"),
		"rate:/shared@1m0s":              common("/shared"),
		"rate:/shared@home":              common("/shared@home"),
		"key:/a.b *>":                    common("/a.b *>"),
		"job:no name.*":                  common("job.no name.*"),
		"job:" + strings.Repeat("x", 65): common("job." + strings.Repeat("x", 65)),
		"queue:":                         common("queue."),
		"":                               common("job."),
		"rate:queue:":                    common("queue."),
		"key:queue.a b/x":                common("queue.a b"),
	} {
		if got := ScopeOf(counter); got != want {
			t.Errorf("%q is of %s, want %s", counter, got, want)
		}
	}
}
