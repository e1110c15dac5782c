package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestHours(t *testing.T) {
	night := Calendar{Name: "night", Timezone: "Europe/Berlin", Rules: []Rule{{Open: "sun"}, {Closed: "22:00-06:00"}}}
	office := Calendar{Name: "office", Rules: []Rule{{Closed: "12-24..01-01"}, {Open: "mon-fri 08:00-18:00"}}, Otherwise: Closed}
	gap := Calendar{Name: "gap", Timezone: "Europe/Berlin", Rules: []Rule{{Closed: "01:00-02:30"}}}
	saturday := Calendar{Name: "saturday", Rules: []Rule{{Open: "sat 22:00-06:00"}}, Otherwise: Closed}
	leap := Calendar{Name: "leap", Rules: []Rule{{Open: "02-29"}}, Otherwise: Closed}
	for name, c := range map[string]struct {
		of    Calendar
		at    string
		open  bool
		turns string // "" if not within a year
	}{
		"before it closes":                    {night, "2026-03-02T21:59:59+01:00", true, "2026-03-02T22:00:00+01:00"},
		"at the moment it closes":             {night, "2026-03-02T22:00:00+01:00", false, "2026-03-03T06:00:00+01:00"},
		"over midnight":                       {night, "2026-03-03T00:00:00+01:00", false, "2026-03-03T06:00:00+01:00"},
		"at the moment it opens":              {night, "2026-03-03T06:00:00+01:00", true, "2026-03-03T22:00:00+01:00"},
		"an exception begins at midnight":     {night, "2026-03-07T23:00:00+01:00", false, "2026-03-08T00:00:00+01:00"},
		"an exception, all day":               {night, "2026-03-08T22:30:00+01:00", true, "2026-03-09T00:00:00+01:00"},
		"the night after it":                  {night, "2026-03-09T00:00:00+01:00", false, "2026-03-09T06:00:00+01:00"},
		"up to the day of the change":         {night, "2026-10-24T23:00:00+02:00", false, "2026-10-25T00:00:00+02:00"},
		"clocks go forward within it":         {gap, "2026-03-29T01:10:00+01:00", false, "2026-03-29T03:00:00+02:00"},
		"clocks go back within it":            {gap, "2026-10-25T02:10:00+02:00", false, "2026-10-25T02:30:00+02:00"},
		"the hour that is there twice, again": {gap, "2026-10-25T02:40:00+02:00", true, "2026-10-25T02:00:00+01:00"},
		"its second time":                     {gap, "2026-10-25T02:10:00+01:00", false, "2026-10-25T02:30:00+01:00"},
		"the first rule that holds decides":   {office, "2026-12-24T09:00:00Z", false, "2027-01-04T08:00:00Z"},
		"over a weekend":                      {office, "2026-03-06T18:00:00Z", false, "2026-03-09T08:00:00Z"},
		"a night belongs to its first day":    {saturday, "2026-03-08T05:59:00Z", true, "2026-03-08T06:00:00Z"},
		"and not to the day before":           {saturday, "2026-03-07T05:00:00Z", false, "2026-03-07T22:00:00Z"},
		"not within a year":                   {leap, "2026-03-01T00:00:00Z", false, ""},
		"within a year":                       {leap, "2027-03-01T00:00:00Z", false, "2028-02-29T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := c.of.Hours()
			if err != nil {
				t.Fatal(err)
			}
			at, _ := time.Parse(time.RFC3339, c.at)
			want, _ := time.Parse(time.RFC3339, c.turns)
			turns, ok := h.Turns(at)
			if h.Open(at) != c.open || ok != (c.turns != "") || !turns.Equal(want) {
				t.Errorf("open %v, turns at %v (%v), want %v and %q", h.Open(at), turns.In(h.Zone()), ok, c.open, c.turns)
			}
			opens, ok := h.Opens(at)
			if c.open {
				want = at
			}
			if ok != !want.IsZero() || !opens.Equal(want) {
				t.Errorf("opens at %v (%v), want %v", opens, ok, want)
			}
		})
	}
}

// Through all changes of clocks, a calendar keeps its state until the time that Turns returns.
func TestTurnsLeavesNothingOut(t *testing.T) {
	c := Calendar{Name: "c", Timezone: "Europe/Berlin", Rules: []Rule{{Open: "sun 01:30-02:30"}, {Closed: "mon-fri 22:00-03:15"}, {Closed: "03-29"}, {Open: "10-25 02:00-24:00"}, {Closed: "sat 00:00-12:00"}}}
	h, err := c.Hours()
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range []string{"2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z", "2026-12-31T00:00:00Z"} {
		at, _ := time.Parse(time.RFC3339, day)
		turns, _ := h.Turns(at)
		for m := at; m.Before(at.AddDate(0, 0, 4)); m = m.Add(time.Minute) {
			if m.Equal(turns) {
				if h.Open(m) == h.Open(m.Add(-time.Minute)) {
					t.Fatalf("it turns at %v, and does not", m)
				}
				turns, _ = h.Turns(m)
			} else if m.After(at) && h.Open(m) != h.Open(m.Add(-time.Minute)) {
				t.Fatalf("it turns at %v, said was %v", m, turns)
			}
		}
	}
}

func TestCalendarsAreRefused(t *testing.T) {
	for want, c := range map[string]Calendar{
		"calendar":                       {Name: "a b", Rules: []Rule{{Closed: "sun"}}},
		"timezone is \"Mars\"":           {Name: "c", Timezone: "Mars", Rules: []Rule{{Closed: "sun"}}},
		"otherwise is \"shut\"":          {Name: "c", Otherwise: "shut", Rules: []Rule{{Closed: "sun"}}},
		"rules: none says closed":        {Name: "c", Rules: []Rule{{Open: "sun"}}},
		"rules: none says open":          {Name: "c", Otherwise: Closed, Rules: []Rule{{Closed: "sun"}}},
		"rules: there are 101":           {Name: "c", Rules: make([]Rule, 101)},
		"rules[1].closed: \"25:00-26:00": {Name: "c", Rules: []Rule{{Closed: "sun"}, {Closed: "25:00-26:00"}}},
		"rules[0]: want one of":          {Name: "c", Rules: []Rule{{Open: "sun", Closed: "mon"}}},
	} {
		if _, err := c.Hours(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

func TestSpans(t *testing.T) {
	office := Calendar{Name: "office", Rules: []Rule{{Open: "mon-fri 08:00-18:00"}}, Otherwise: Closed}
	holidays := Calendar{Name: "holidays", Rules: []Rule{{Closed: "12-24..12-26"}}}
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		of     Calendar
		most   int
		within time.Duration
		want   string
	}{
		"no more than asked for":       {office, 3, day * 7, "closed 03-01 12:00 to 03-02 08:00, open 03-02 08:00 to 03-02 18:00, closed 03-02 18:00 to 03-03 08:00"},
		"the last may end later":       {office, 9, day, "closed 03-01 12:00 to 03-02 08:00, open 03-02 08:00 to -"},
		"up to the horizon":            {office, 9, 20 * time.Hour, "closed 03-01 12:00 to 03-02 08:00, open 03-02 08:00 to -"},
		"one that does not change":     {holidays, 9, day * 7, "open 03-01 12:00 to -"},
		"within a year there is a gap": {holidays, 9, year, "open 03-01 12:00 to 12-24 00:00, closed 12-24 00:00 to 12-27 00:00, open 12-27 00:00 to -"},
	} {
		h, err := c.of.Hours()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range h.Spans(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), c.most, c.within) {
			is, to := Closed, "-"
			if s.Open {
				is = Open
			}
			if !s.To.IsZero() {
				to = s.To.Format("01-02 15:04")
			}
			got = append(got, is+" "+s.From.Format("01-02 15:04")+" to "+to)
		}
		if is := strings.Join(got, ", "); is != c.want {
			t.Errorf("%s: %s, want %s", name, is, c.want)
		}
	}
}

// A page may ask for the spans of any stored calendar.
func BenchmarkSpans(b *testing.B) {
	c := Calendar{Name: "c", Rules: []Rule{{Closed: "12-31"}}}
	for i := range MaxRules - 1 {
		c.Rules = append(c.Rules, Rule{Open: "12-30 " + time.Unix(int64(i)*600, 0).UTC().Format("15:04") + "-24:00"})
	}
	h, err := c.Hours()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		h.Spans(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 10, year)
	}
}
