package load

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

//go:embed report.html
var reportPage string

// reportTemplate is parsed when a report is written, not whenever a process starts.
func reportTemplate() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"inc":    func(i int) int { return i + 1 },
		"figure": Figure,
		"mib":    func(bytes int64) string { return Figure(float64(bytes) / (1 << 20)) },
	}).Parse(reportPage))
}

// Figure formats a number for people.
func Figure(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Row is a line of the table of rounds.
type Row struct {
	What   string
	Values []string
}

// Rows returns the table of a result, with a value for each round.
func (r *Result) Rows() []Row {
	var rows []Row
	add := func(what string, value func(*Round) string) {
		row := Row{What: what}
		for i := range r.Rounds {
			row.Values = append(row.Values, value(&r.Rounds[i]))
		}
		rows = append(rows, row)
	}
	add("arrivals", func(r *Round) string { return strconv.Itoa(r.Arrivals) })
	add("tasks", func(r *Round) string { return strconv.Itoa(r.Tasks) })
	add("done per second", func(r *Round) string { return Figure(r.PerSecond) })
	for _, l := range []struct {
		what string
		of   func(*Round) Latency
	}{
		{"until the start", func(r *Round) Latency { return r.Start }},
		{"until the end", func(r *Round) Latency { return r.End }},
		{"sent late", func(r *Round) Latency { return r.Sent }},
	} {
		ms := func(what string, of func(Latency) float64) {
			add(what, func(r *Round) string { return Figure(of(l.of(r))) })
		}
		ms(l.what+" p50, ms", func(l Latency) float64 { return l.P50 })
		ms("p90", func(l Latency) float64 { return l.P90 })
		ms("p99", func(l Latency) float64 { return l.P99 })
		ms("p99.9", func(l Latency) float64 { return l.P999 })
		ms("max", func(l Latency) float64 { return l.Max })
	}
	add("waiting, max", func(r *Round) string { return strconv.Itoa(r.Depth) })
	if slices.ContainsFunc(r.Rounds, Round.looked) {
		add("server memory, max, MiB", func(r *Round) string { return Figure(float64(r.Memory) / (1 << 20)) })
		add("server disk, max, MiB", func(r *Round) string { return Figure(float64(r.Disk) / (1 << 20)) })
		add("processor time of a task, server, µs", func(r *Round) string { return Figure(r.Server) })
		add("worker and load, µs", func(r *Round) string { return Figure(r.Worker) })
	}
	add("failed, lost, duplicated", func(r *Round) string { return fmt.Sprintf("%d, %d, %d", r.Failed, r.Lost, r.Duplicated) })
	return rows
}

// Fault is something that was broken on purpose, from one time of a round to another, in seconds.
type Fault struct {
	From, Until float64
	What        string
}

// looked tells whether the server's use was measured.
func (r Round) looked() bool { return r.Memory > 0 }

// Interval is the finding's interval, in words.
func (f Finding) Interval() string {
	if f.High == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f to %.2f", f.Low, f.High)
}

// Verdict is the finding's verdict, in a word.
func (f Finding) Verdict() string {
	if f.Worse {
		return "worse"
	}
	return "ok"
}

// Where a chart has its lines, in the units of its drawing.
const (
	chartWidth, chartHeight  = 900, 180
	chartLeft, chartRight    = 60, 890
	chartTop, chartBottom    = 10, 155
	chartLabel, chartXLabels = 54, 172
)

type chart struct {
	Title         string
	Width, Height int
	Series        []series
	X, Y          []mark
	Faults        []band
}

// band is a time in which something was broken.
type band struct{ X, Width, What string }

type series struct {
	Name, Line string
	// Alone tells that there is only one point, at X and Y.
	Alone bool
	X, Y  string
}

// mark is a label of an axis.
type mark struct{ At, Text string }

// line is one series before it is drawn. Points that are not a number are left out.
type line struct {
	name string
	of   func(*Point) float64
}

// WriteReport writes a self-contained page: no script, no font, no server. faults are what was
// broken in the rounds.
func WriteReport(w io.Writer, r *Result, findings []Finding, faults []Fault) error {
	type drawn struct {
		Charts []chart
		Points []Point
		Faults []Fault
	}
	data := struct {
		Result                   *Result
		Rows                     []Row
		Findings                 []Finding
		Rounds                   []drawn
		Left, Right, Label, Foot int
		Top, Tall                int
	}{Result: r, Rows: r.Rows(), Findings: findings, Left: chartLeft, Right: chartRight, Label: chartLabel, Foot: chartXLabels, Top: chartTop, Tall: chartBottom - chartTop}
	for i := range r.Rounds {
		data.Rounds = append(data.Rounds, drawn{charts(&r.Rounds[i], faults), r.Rounds[i].Points, faults})
	}
	return reportTemplate().Execute(w, data)
}

// charts returns the charts of a round, all on the same time axis.
func charts(r *Round, faults []Fault) []chart {
	every := max(r.Every, 1e-9)
	rate := func(of func(*Point) int) func(*Point) float64 {
		return func(p *Point) float64 { return float64(of(p)) / every }
	}
	// A part without arrivals has no latency.
	ms := func(of func(*Latency) float64) func(*Point) float64 {
		return func(p *Point) float64 {
			if p.Start.Max == 0 {
				return math.NaN()
			}
			return of(&p.Start)
		}
	}
	all := []chart{
		draw(r, faults, "Throughput, a second", false, []line{{"arrivals to come", rate(func(p *Point) int { return p.Arrived })},
			{"tasks started", rate(func(p *Point) int { return p.Started })}, {"tasks ended", rate(func(p *Point) int { return p.Ended })}}),
		draw(r, faults, "Latency until the start, ms (logarithmic)", true, []line{{"p50", ms(func(l *Latency) float64 { return l.P50 })}, {"p90", ms(func(l *Latency) float64 { return l.P90 })},
			{"p99", ms(func(l *Latency) float64 { return l.P99 })}, {"max", ms(func(l *Latency) float64 { return l.Max })}}),
		draw(r, faults, "Tasks that wait for their start", false, []line{{"waiting", func(p *Point) float64 { return float64(p.Depth) }}}),
	}
	if !r.looked() {
		return all
	}
	return append(all,
		draw(r, faults, "Memory of the server, MiB", false, []line{{"resident", func(p *Point) float64 { return float64(p.Memory) / (1 << 20) }}}),
		draw(r, faults, "Processors that the server uses", false, []line{{"busy", func(p *Point) float64 { return p.Busy }}}))
}

// draw draws lines over the time of a round.
func draw(r *Round, faults []Fault, title string, logarithmic bool, lines []line) chart {
	c := chart{Title: title, Width: chartWidth, Height: chartHeight}
	low, high := math.Inf(1), 0.0
	for _, l := range lines {
		for i := range r.Points {
			if v := l.of(&r.Points[i]); v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	var ticks []float64
	scale := func(v float64) float64 { return v }
	if logarithmic && high > 0 {
		for e := math.Floor(math.Log10(low)); ; e++ {
			ticks = append(ticks, math.Pow(10, e))
			if e >= math.Log10(high) {
				break
			}
		}
		if len(ticks) == 1 {
			ticks = append(ticks, 10*ticks[0])
		}
		scale = func(v float64) float64 { return math.Log10(max(v, ticks[0])) }
	} else {
		ticks = steps(high)
	}
	bottom, top := scale(ticks[0]), scale(ticks[len(ticks)-1])
	y := func(v float64) string {
		return place(chartBottom - (scale(v)-bottom)/(top-bottom)*(chartBottom-chartTop))
	}
	for _, v := range ticks {
		c.Y = append(c.Y, mark{y(v), strconv.FormatFloat(v, 'g', -1, 64)})
	}
	end := 0.0
	if n := len(r.Points); n > 0 {
		end = r.Points[n-1].At + r.Every
	}
	times := steps(end)
	x := func(at float64) string {
		return place(chartLeft + at/times[len(times)-1]*(chartRight-chartLeft))
	}
	for _, f := range faults {
		from, until := min(max(f.From, 0), times[len(times)-1]), min(max(f.Until, 0), times[len(times)-1])
		c.Faults = append(c.Faults, band{x(from), place(max((until-from)/times[len(times)-1]*(chartRight-chartLeft), 1)), f.What})
	}
	for _, v := range times {
		c.X = append(c.X, mark{x(v), strconv.FormatFloat(v, 'g', -1, 64) + " s"})
	}
	for _, l := range lines {
		s := series{Name: l.name}
		var points []string
		for i := range r.Points {
			p := &r.Points[i]
			v := l.of(p)
			if math.IsNaN(v) {
				continue
			}
			s.X, s.Y = x(p.At+r.Every/2), y(v)
			points = append(points, s.X+","+s.Y)
		}
		s.Line, s.Alone = strings.Join(points, " "), len(points) == 1
		c.Series = append(c.Series, s)
	}
	return c
}

func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// steps returns round numbers from 0 to the first that is not below high: three to six of them.
func steps(high float64) []float64 {
	if high <= 0 {
		return []float64{0, 1}
	}
	exponent := math.Floor(math.Log10(high / 4))
	for _, of := range []float64{1, 2, 5, 10} {
		if n := math.Ceil(high/(of*math.Pow(10, exponent)) - 1e-9); n <= 5 {
			all := make([]float64, int(n)+1)
			for i := range all {
				// Through its text: 3 × 0.1 must be 0.3.
				all[i], _ = strconv.ParseFloat(fmt.Sprintf("%.0fe%.0f", of*float64(i), exponent), 64)
			}
			return all
		}
	}
	return []float64{0, high}
}
