package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// bounds are the bounds of an expression's fields, in the order of fieldNames.
var bounds = [][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}

// spelled returns an expression in a spelling that the parser knows. Other crons accept more, which
// is rewritten: a step beyond its range (0 */24 * * *) leaves the first value, and 5L or friL as
// day of the week is the last Friday, fri#L.
func spelled(expr string) string {
	fields := strings.Fields(expr)
	first := len(bounds) - len(fields)
	if strings.HasPrefix(expr, "@") || first < 0 {
		return expr
	}
	for i, field := range fields {
		parts := strings.Split(field, ",")
		for j, part := range parts {
			if first+i == len(bounds)-1 {
				part = lastWeekday(part)
			}
			parts[j] = stepped(part, bounds[first+i])
		}
		fields[i] = strings.Join(parts, ",")
	}
	return strings.Join(fields, " ")
}

// Slip returns what is written amiss in the expression although the parser makes something of it: an
// empty part, as in mon, or 1,,2; a * with more than a step behind it; a number with a sign. A stored
// schedule goes on as it is read; a new one is refused. The error begins with the name of the field.
func (p *Plan) Slip() error {
	fields := strings.Fields(p.Cron)
	first := len(bounds) - len(fields)
	if strings.HasPrefix(p.Cron, "@") || first < 0 {
		return nil
	}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			want := ""
			switch {
			case part == "":
				want = "want something on both sides of each comma"
			case strings.ContainsAny(part[:1], "*?") && len(part) > 1 && part[1] != '/':
				want = "want * alone, or with a step, as in */5"
			case strings.Contains(part, "+"):
				want = wanted(first+i, part)
			default:
				continue
			}
			return fmt.Errorf("cron is %q: field %d (%s) is %q: %s", p.Cron, i+1, fieldNames[first+i], field, want)
		}
	}
	return nil
}

func lastWeekday(part string) string {
	day, last := strings.CutSuffix(strings.ToUpper(part), "L")
	if !last || day == "" || strings.HasSuffix(day, "#") {
		return part
	}
	return day + "#L"
}

// stepped is the first value of a range with a step beyond it, and otherwise the part itself.
func stepped(part string, of [2]int) string {
	span, text, ok := strings.Cut(part, "/")
	step, err := strconv.Atoi(text)
	if !ok || err != nil || step < 1 {
		return part
	}
	from, to := of[0], of[1]
	if span != "*" {
		a, b, bounded := strings.Cut(span, "-")
		if from, err = strconv.Atoi(a); err != nil {
			return part
		}
		if bounded {
			if to, err = strconv.Atoi(b); err != nil {
				return part
			}
		}
	}
	if from < of[0] || to < from || from+step <= to {
		return part
	}
	return strconv.Itoa(from)
}
