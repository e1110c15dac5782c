//go:build linux

package child

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// Both benchmarks start /bin/true, eight at a time. Their ratio is the cost of Run: the bare
// minimum, and everything that is done for a task.

func atOnce(b *testing.B, one func()) {
	b.SetParallelism(4) // times GOMAXPROCS, 2 where the figures in the documentation come from
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			one()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "processes/s")
}

func BenchmarkPlain(b *testing.B) {
	env := os.Environ()
	atOnce(b, func() {
		cmd := exec.Command("/bin/true")
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			b.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkRun(b *testing.B) { benchmarkRun(b, false) }

// BenchmarkAlone is the same with a thread for each process.
func BenchmarkAlone(b *testing.B) { benchmarkRun(b, true) }

func benchmarkRun(b *testing.B, alone bool) {
	r, env := guarded(b), os.Environ()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	atOnce(b, func() {
		if res := r.Run(ctx, Command{Argv: []string{"/bin/true"}, Env: env, Alone: alone}, &count{}); res.Class != "" {
			b.Error(res.Message)
		}
	})
}
