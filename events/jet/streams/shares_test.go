package streams

import "testing"

func TestSharesLeaveRoomForTheLog(t *testing.T) {
	t.Parallel()
	for _, store := range []int64{1 << 20, 100 << 20, 1 << 40} {
		s := SharesOf(store)
		if sum := s.Output + s.Records + s.Files + s.State; sum > store/3*2 || sum < store/2 {
			t.Errorf("of %d the streams beside the log get %d, want more than half and at most two thirds", store, sum)
		}
	}
	got := Sizes{Output: 5, State: NoBound}.or(Sizes{1, 2, 3, 4})
	if got != (Sizes{5, 2, 3, NoBound}) {
		t.Errorf("what is said and what is not add up to %+v", got)
	}
}
