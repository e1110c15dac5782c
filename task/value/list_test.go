package value

import "testing"

func TestList(t *testing.T) {
	type kind string
	for want, got := range map[string]string{"day, week": List([]string{"day", "week"}), "a": List([]kind{"a"}), "1, 2": List([]int{1, 2}), "none": List[string](nil)} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
