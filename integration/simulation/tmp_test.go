package simulation
import "testing"
func TestTmp(t *testing.T) {
	n, calm, recs, pres := 0, 0, 0, 0
	for seed := range uint64(300) {
		h := play(t, seed, variant{})
		n += len(h.steps); recs += len(h.records)
		c := false
		for _, s := range h.steps { if s.remark == "the faults are over" { c = true }; if c { calm++
		 if len(s.actor) > 6 && s.actor[len(s.actor)-6:] == "-nodes" { pres++ } } }
	}
	t.Logf("steps %d calm %d presence in calm %d records %d per history", n/300, calm/300, pres/300, recs/300)
}
