package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/task"
)

// order is one task that the load asks for.
type order struct {
	at         time.Duration // since the beginning
	submission task.Submission
	// version is which of a shelf it runs with; 0 for none.
	version int
	// cancel is how long after its submission it is cancelled; 0 for never.
	cancel time.Duration
}

// workload makes the tasks of a run: so many in a second until the end, at most
// limit of them if that is above 0. Two thirds are short; the others fail once
// or always, are due later, are cancelled, or run for up to a lease and a bit,
// so that a fault finds them running. A third stands under limits. Like [Plan] it is a pure function.
func workload(seed uint64, duration time.Duration, rate float64, limit int, lease time.Duration) []order {
	chance := rand.New(rand.NewPCG(seed, 1))
	n := int(duration.Seconds() * rate)
	if limit > 0 {
		n = min(n, limit)
	}
	orders := make([]order, 0, n)
	for i := range n {
		o := order{at: time.Duration(float64(i) / rate * float64(time.Second))}
		kind := "short"
		spec := &task.Spec{}
		sleep := func(least, most time.Duration) string {
			return fmt.Sprintf("%.3f", (least + time.Duration(chance.Int64N(int64(most-least)))).Seconds())
		}
		quick := sleep(10*time.Millisecond, 300*time.Millisecond)
		switch k := chance.IntN(100); {
		case k < 66:
			spec.Run = &task.Run{Argv: []string{"sleep", quick}}
		case k < 76:
			kind = "long"
			spec.Run = &task.Run{Argv: []string{"sleep", sleep(lease/3, lease*6/5)}}
		case k < 84:
			kind = "fails-once"
			spec.Run = &task.Run{Shell: "sleep " + quick + `; [ "$MILLRACE_ATTEMPT" != 1 ]`}
			spec.Retry = task.Retry{Max: 2, Min: task.Duration(200 * time.Millisecond)}
		case k < 88:
			kind = "fails"
			spec.Run = &task.Run{Shell: "sleep " + quick + "; exit 7"}
			spec.Retry = task.Retry{Max: 1, Min: task.Duration(200 * time.Millisecond)}
		case k < 94:
			kind = "later"
			spec.Run = &task.Run{Argv: []string{"sleep", quick}}
			o.submission.Delay = task.Duration(time.Duration(500+chance.IntN(4000)) * time.Millisecond)
		default:
			kind = "cancelled"
			spec.Run = &task.Run{Argv: []string{"sleep", "600"}}
			o.cancel = time.Duration(100+chance.IntN(3000)) * time.Millisecond
		}
		o.submission.Spec = spec
		o.submission.Labels = map[string]string{"kind": kind}
		orders = append(orders, o)
	}
	restrain(orders, seed, rate)
	return orders
}
