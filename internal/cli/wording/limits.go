package wording

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
)

// NamedHolders is how many of a limit's holders are named.
const NamedHolders = 5

// LimitColumns are those of lists of limits, at a moment.
func LimitColumns(now time.Time) []term.Column[quota.CounterState] {
	type row = *quota.CounterState
	return []term.Column[quota.CounterState]{
		term.Text("LIMIT", 0, func(c row) string { return c.Name }),
		term.Text("IN USE", 0, InUse),
		term.Number("WAITING", 0, func(c row) string { return strconv.Itoa(c.Waiting) }),
		term.Text("RATE", 1, func(c row) string { rate, _ := NextText(c, now); return rate }),
		term.Text("NEXT", 2, func(c row) string { _, next := NextText(c, now); return next }),
		term.Text("BOUNDS", 0, func(c row) string { return limit.Words(c.Name) }),
	}
}

// InUse is how much of a limit is used; nothing for a rate.
func InUse(c *quota.CounterState) string {
	if c.Budget != nil {
		return c.Budget.Words()
	}
	if c.Max == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", c.InUse, c.Max)
}

// NextText describes a rate, and when it next admits a task or when a budget is renewed.
func NextText(c *quota.CounterState, now time.Time) (rate, next string) {
	if c.Budget != nil {
		return "", "anew " + Moment(c.Budget.Resets, now)
	}
	return RateText(c.Rate, now)
}

// RateText describes a rate and when it next admits a task.
func RateText(r *quota.RateState, now time.Time) (rate, next string) {
	if r == nil {
		return "", ""
	}
	rate = RateWords(limit.Rate{Limit: r.Limit, Per: r.Per, Burst: r.Burst})
	if r.Opens.IsZero() {
		return rate, fmt.Sprintf("%d now", r.Left)
	}
	return rate, Moment(r.Opens, now)
}

// RateWords say how often something may start; "" for no rate.
func RateWords(r limit.Rate) string {
	if r.Limit == 0 {
		return ""
	}
	r.Key = ""
	return r.Words()
}

// LimitDuty says what a task held by its limits waits for.
func LimitDuty(t *task.Task, s *quota.Standing, now time.Time) string {
	if s.Admitted {
		return "offer it: its limits have admitted it"
	}
	if t.Due.After(now) {
		return "ask its limits when it is due, " + Moment(t.Due, now)
	}
	if len(s.Counters) == 0 {
		return "admit it"
	}
	var full []string
	for i := range s.Counters {
		if c := &s.Counters[i]; c.Full {
			full = append(full, counterDuty(c, now))
		}
	}
	line := ordinal(s.Ahead+1) + " in line"
	if len(full) == 0 {
		return "admit it; it is " + line
	}
	return fmt.Sprintf("admit it: %s; it is %s", strings.Join(full, ", and "), line)
}

// Counter says how a limit stands: who has its places, and how many wait.
func Counter(c *quota.CounterState, now time.Time) string {
	return fmt.Sprintf("%s; %d wait", counterDuty(c, now), c.Waiting)
}

// counterDuty says how a limit makes tasks wait.
func counterDuty(c *quota.CounterState, now time.Time) string {
	if c.Rate != nil {
		rate, next := RateText(c.Rate, now)
		name := "limit " + c.Name
		if queue, ok := limit.QueueOf(c.Name); ok {
			name = fmt.Sprintf("the rate of queue %s (limit %s)", queue, c.Name)
		}
		return fmt.Sprintf("%s admits %s, the next one %s", name, rate, next)
	}
	if c.Budget != nil {
		return fmt.Sprintf("the budget is used up, limit %s has %s, and begins anew %s", c.Name, c.Budget.Words(), Moment(c.Budget.Resets, now))
	}
	ids := make([]string, len(c.Holders))
	for i, id := range c.Holders {
		ids[i] = string(id)
	}
	if queue, ok := limit.QueueOf(c.Name); ok {
		return fmt.Sprintf("%d that the rate of queue %s has admitted wait for a worker, such as %s", c.InUse, queue, strings.Join(ids, ", "))
	}
	by := strings.Join(ids, ", ")
	if more := c.InUse - len(ids); more > 0 && len(ids) > 0 {
		by += fmt.Sprintf(" and %d more", more)
	}
	if by != "" {
		by = " by " + by
	}
	return fmt.Sprintf("limit %s is taken %d/%d%s", c.Name, c.InUse, c.Max, by)
}

// ordinal is 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if tens := n % 100 / 10; tens != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
