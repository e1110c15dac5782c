package task_test

import (
	"testing"

	"millrace/task/limit"
)

func TestLimitWords(t *testing.T) {
	for name, want := range map[string]string{
		"job:mail":               "tasks under way of job mail",
		"queue:default":          "tasks under way without a job in queue default",
		"key:mail/acme":          "tasks under way of job mail with the key acme",
		"key:mail/a/b:c":         "tasks under way of job mail with the key a/b:c",
		"key:/images":            "tasks under way of all jobs with the key /images",
		"key:queue.default/acme": "tasks under way without a job in queue default with the key acme",
		"rate:mail":              "starts of job mail",
		"rate:mail@1h0m0s":       "starts of job mail",
		"rate:mail/x":            "starts of job mail with the key x",
		"rate:queue.default":     "starts without a job in queue default",
		"rate:queue:default":     "starts in queue default, whatever runs there",
		"rate:queue:default#7":   "starts in queue default, whatever runs there",
		"nonsense":               "",
		"other:x":                "",
		"":                       "",
	} {
		if got := limit.Words(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
