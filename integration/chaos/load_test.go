package chaos

import (
	"reflect"
	"testing"
	"time"

	"millrace/task/birth"
)

func TestWorkload(t *testing.T) {
	const lease = 6 * time.Second
	orders := workload(3, time.Minute, 10, 0, lease)
	if len(orders) != 600 || !reflect.DeepEqual(orders, workload(3, time.Minute, 10, 0, lease)) {
		t.Errorf("%d orders, or others the second time; want 600", len(orders))
	}
	if n := len(workload(3, time.Minute, 10, 25, lease)); n != 25 {
		t.Errorf("%d orders, want at most 25", n)
	}
	kinds := map[string]int{}
	for i, o := range orders {
		if _, err := birth.Of(o.submission, nil, 0, noon); err != nil {
			t.Fatal(err)
		}
		if o.at < 0 || o.at >= time.Minute || i > 0 && o.at < orders[i-1].at {
			t.Errorf("order %d is at %v", i, o.at)
		}
		kind := o.submission.Labels["kind"]
		if kinds[kind]++; (kind == "cancelled") != (o.cancel > 0) {
			t.Errorf("a task of kind %s is cancelled after %v", kind, o.cancel)
		}
	}
	if len(kinds) != 6 || kinds["short"] < 300 {
		t.Errorf("kinds: %v", kinds)
	}
}
