package load

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// page writes a report and reads it: every element, strictly closed.
func page(t *testing.T, r *Result, findings []Finding, faults ...Fault) (text string, elements []xml.StartElement, said string) {
	t.Helper()
	var b strings.Builder
	if err := WriteReport(&b, r, findings, faults); err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), elements, words.String()
		}
		if err != nil {
			t.Fatalf("the page cannot be read: %v\n%s", err, b.String())
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements = append(elements, token.Copy())
		case xml.CharData:
			words.Write(token)
		}
	}
}

func sampleRound() Round {
	r := Round{Arrivals: 3, Tasks: 3, PerSecond: 1.5, Every: 1, Start: Latency{1, 2, 3, 4, 5}, Depth: 7, Memory: 50 << 20}
	for i := range 4 {
		p := Point{At: float64(i), Arrived: i, Started: 2 * i, Ended: 3, Depth: 7 - i, Memory: int64(i) << 20, Busy: 0.25}
		if i != 2 { // no task was due in that second
			p.Start = Latency{0.3, 3, 30, 300, 3000}
		}
		r.Points = append(r.Points, p)
	}
	return r
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestReport(t *testing.T) {
	r := &Result{Profile: "steady", Rate: 10, Seconds: 4, Spacing: Even, Version: "0.1", Rounds: []Round{sampleRound(), sampleRound()}}
	text, elements, said := page(t, r, []Finding{{What: "done per second", Was: 10, Is: 5, Low: 1.9, High: 2.1, Worse: true}, {What: "memory of the server"}})
	for _, want := range []string{"Load: steady", "10 arrivals a second (even) for 4 s", "Throughput", "Latency until the start", "wait for their start", "Memory of the server, MiB", "1.90 to 2.10", "Round 2"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	counts := map[string]int{}
	for _, e := range elements {
		counts[e.Name.Local]++
		for _, a := range e.Attr {
			if slices.Contains([]string{"src", "href", "srcset", "data", "action", "poster", "background"}, a.Name.Local) || strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("<%s> refers to something: %s=%q", e.Name.Local, a.Name.Local, a.Value)
			}
		}
		if e.Name.Local == "polyline" {
			for point := range strings.FieldsSeq(attribute(e, "points")) {
				for i, part := range strings.Split(point, ",") {
					v, err := strconv.ParseFloat(part, 64)
					if err != nil || v < 0 || v > []float64{chartWidth, chartHeight}[i] {
						t.Errorf("a point is %q, outside the drawing", point)
					}
				}
			}
		}
	}
	if counts["svg"] != 10 || counts["polyline"] != 20 || counts["script"]+counts["link"]+counts["img"]+counts["iframe"] != 0 {
		t.Errorf("the page has %v; want 10 drawings with 20 lines in all, and nothing from elsewhere", counts)
	}
	for _, never := range []string{"http://", "https://", "url(", "@import", "NaN", "Inf", "ZgotmplZ"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if strings.Count(text, `class="worse"`) != 1 {
		t.Error("not just the finding that is worse is marked as such")
	}
}

// Each fault stands on the axis of each drawing, at its time, and in a table; an unmeasured series
// has no drawing.
func TestReportOfFaults(t *testing.T) {
	round := sampleRound() // of 4 s
	round.Memory = 0
	faults := []Fault{{From: 1, Until: 2, What: "kill worker-1"}, {From: 3, Until: 900, What: "cut server"}}
	_, elements, said := page(t, &Result{Rounds: []Round{round}}, nil, faults...)
	if !strings.Contains(said, "kill worker-1") || strings.Contains(said, "Memory of the server") {
		t.Errorf("the page says %s", said)
	}
	var bands []string
	for _, e := range elements {
		if e.Name.Local == "rect" {
			bands = append(bands, attribute(e, "x")+" "+attribute(e, "width"))
		}
	}
	part := (chartRight - chartLeft) / 4.0
	first, second := place(chartLeft+part)+" "+place(part), place(chartLeft+3*part)+" "+place(part)
	if !slices.Equal(bands, []string{first, second, first, second, first, second}) {
		t.Errorf("the faults are at %v, want %q and %q in each of three drawings", bands, first, second)
	}
}

// Names come from files that others may have written.
func TestReportEscapes(t *testing.T) {
	bad := `"></title><script>alert(1)</script>&'`
	text, elements, said := page(t, &Result{Profile: bad, Spacing: bad, Version: bad}, []Finding{{What: bad}})
	if slices.ContainsFunc(elements, func(e xml.StartElement) bool { return e.Name.Local == "script" }) || strings.Contains(text, "<script") {
		t.Errorf("a name has become a script:\n%s", text)
	}
	if n := strings.Count(said, bad); n != 5 { // the title, the heading, the plan, the version, a finding
		t.Errorf("the name is there %d times, as it was written, want 5", n)
	}
}

// A report can be written of any result, however little it has.
func TestReportOfLittle(t *testing.T) {
	one := sampleRound()
	one.Points = one.Points[:1]
	for name, r := range map[string]*Result{
		"nothing": {}, "no points": {Rounds: []Round{{}}}, "one point": {Rounds: []Round{one}},
		"much": {Rounds: []Round{{Every: 1e6, Points: []Point{{At: 1e9, Busy: 1e9, Depth: 1e12, Start: Latency{0.001, 0.001, 0.001, 0.001, 3.6e6}}}}}},
	} {
		if text, _, _ := page(t, r, nil); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: the page has what is no number", name)
		}
	}
}

func TestSteps(t *testing.T) {
	for high, want := range map[float64][]float64{
		0: {0, 1}, 1: {0, 0.2, 0.4, 0.6, 0.8, 1}, 3: {0, 1, 2, 3}, 30: {0, 10, 20, 30}, 101: {0, 50, 100, 150}, 0.31: {0, 0.1, 0.2, 0.3, 0.4}, 4000: {0, 1000, 2000, 3000, 4000},
	} {
		if got := steps(high); !slices.Equal(got, want) {
			t.Errorf("steps up to %v are %v, want %v", high, got, want)
		}
	}
}
