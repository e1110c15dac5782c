package embed

import "testing"

func TestStoreLimit(t *testing.T) {
	t.Parallel()
	const mb, gb = 1 << 20, 1 << 30
	for _, c := range []struct{ used, free, want int64 }{
		{0, 100 * gb, 99 * gb},            // 1 GiB is left alone
		{50 * gb, 50 * gb, 99 * gb},       // the same after a restart, however much is there
		{0, 24 * mb, 24*mb - 24*mb/10},    // a tenth of a small disk
		{99 * gb, 10 * mb, 99*gb + 5*mb},  // nearly full: it still takes something
		{99 * gb, 0, 99 * gb},             // full: nothing more
		{0, 0, 0},                         // the server reads 0 as "as much as there is"
		{10 * gb, 1 * gb, 10*gb + gb/2},   // half of the free space
		{1 * gb, 4 * gb, 5*gb - 5*gb/10},  // a tenth of both together
		{0, 10 * gb, 10*gb - 1*gb},        // where a tenth is 1 GiB
		{30 * mb, 30 * mb, 60*mb - 6*mb},  // small, half full
		{90 * mb, 10 * mb, 100*mb - 5*mb}, // small, nearly full
	} {
		if got := storeLimit(c.used, c.free); got != c.want {
			t.Errorf("with %d used and %d free the streams may hold %d, want %d", c.used, c.free, got, c.want)
		}
	}
}
