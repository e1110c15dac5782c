package client_test

import (
	"testing"

	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task/birth"
	"millrace/task/job"
)

// BenchmarkSubmit is one submission after the other, each awaited. The allocations include the
// server's, which runs in the same process.
func BenchmarkSubmit(b *testing.B) {
	steps := birth.Submission{Spec: &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "noop"}}, {Name: "b", Spec: job.Spec{Handler: "noop"}}}}}
	for name, of := range map[string]func() birth.Submission{
		"plain":  func() birth.Submission { return noop },
		"chosen": func() birth.Submission { s := noop; s.ID = client.NewID(); return s },
		"steps":  func() birth.Submission { return steps },
	} {
		b.Run(name, func(b *testing.B) {
			c := client.New(harness.Open(b, streams.Layout{}).Store, "bench")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Submit(b.Context(), of()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSubmitMany is what one of many equal tasks costs.
func BenchmarkSubmitMany(b *testing.B) {
	c := client.New(harness.Open(b, streams.Layout{}).Store, "bench")
	b.ReportAllocs()
	made := 0
	if err := c.SubmitMany(b.Context(), noop, b.N, func(client.Receipt) { made++ }); err != nil || made != b.N {
		b.Fatal(made, err)
	}
}

// BenchmarkSubmitAll is what one of many different tasks costs.
func BenchmarkSubmitAll(b *testing.B) {
	c := client.New(harness.Open(b, streams.Layout{}).Store, "bench")
	all := make([]birth.Submission, b.N)
	for i := range all {
		all[i] = noop
		all[i].ID, all[i].Fresh = client.NewID(), true
	}
	b.ReportAllocs()
	b.ResetTimer()
	made := 0
	if err := c.SubmitAll(b.Context(), all, func(client.Receipt) { made++ }); err != nil || made != b.N {
		b.Fatal(made, err)
	}
}
