package listing

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"
)

// Table writes an answer as a table whose cells are separated by tabs.
func (l *List[A, R]) Table(w Writer, answer proto.Message, v View) {
	a := answer.(A) //nolint:errcheck,forcetypeassert // a list is asked for its own answers only
	if l.Head != nil {
		writeLines(w, oneLineEach(l.Head(a)))
	}
	writeLines(w, []string{strings.Join(l.Header(v), "\t")})
	for _, r := range l.RowsOf(answer, v) {
		writeLines(w, []string{strings.Join(r.Cells, "\t")})
		for _, line := range r.Below { // below the last cell
			writeLines(w, []string{strings.Repeat("\t", len(r.Cells)-1) + "  " + line})
		}
	}
	if l.Foot != nil {
		writeLines(w, oneLineEach(l.Foot(a)))
	}
}

// writeLines leaves it to the caller to see that w failed: tables go through a tabwriter, whose Flush says it.
func writeLines(w Writer, lines []string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(w, line)
	}
}

func oneLineEach(lines []string) (out []string) {
	for _, line := range lines {
		out = append(out, OneLine(line))
	}
	return out
}

// Header are the names of the columns that are shown.
func (l *List[A, R]) Header(v View) (names []string) {
	for i := range l.Columns {
		if c := &l.Columns[i]; v.Wide || !c.Wide {
			names = append(names, c.Name)
		}
	}
	return names
}

// RowsOf are the rows that a table shows.
func (l *List[A, R]) RowsOf(answer proto.Message, v View) (rows []Row) {
	for _, r := range l.arranged(answer.(A), v) {
		rows = append(rows, l.row(r, v))
	}
	return rows
}

func (l *List[A, R]) row(r R, v View) Row {
	out := Row{ID: l.ID(r)}
	if l.RowID != nil {
		out.ID += "\x00" + l.RowID(r)
	}
	var fixed []string
	for i := range l.Columns {
		c := &l.Columns[i]
		if c.Wide && !v.Wide {
			continue
		}
		out.Cells = append(out.Cells, c.shown(r, v))
		if c.Since == nil {
			fixed = append(fixed, out.Cells[len(out.Cells)-1])
		}
	}
	if l.Below != nil {
		out.Below = oneLineEach(l.Below(r, v.Wide))
	}
	out.Fixed = strings.Join(append(fixed, out.Below...), "\t")
	return out
}

func (c *Column[R]) shown(r R, v View) string {
	switch {
	case c.Since != nil:
		return ageCell(c.Since(r), v.now())
	case v.Wide && c.Full != nil:
		return cmp.Or(OneLine(c.Full(r)), "-")
	}
	return cmp.Or(OneLine(c.Cell(r)), "-")
}

// OneLine is a cell on one line of what can be read: names and errors come from elsewhere, and must neither break the table
// nor command a terminal.
func OneLine(cell any) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, fmt.Sprint(cell))
}

func (v View) now() time.Time {
	if v.Now.IsZero() {
		return time.Now()
	}
	return v.Now
}

// ageAt is how long ago a time in RFC 3339 was.
func ageAt(since string, now time.Time) (time.Duration, bool) {
	t, err := time.Parse(time.RFC3339Nano, since)
	return now.Sub(t), err == nil
}

// ageCell is an age in its largest units, empty where it is not known.
func ageCell(since string, now time.Time) string {
	age, known := ageAt(since, now)
	switch {
	case !known:
		return "-"
	case age < time.Minute:
		return fmt.Sprintf("%ds", int(age.Seconds()))
	case age < time.Hour:
		return fmt.Sprintf("%dm%ds", int(age.Minutes()), int(age.Seconds())%60)
	case age < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(age.Hours()), int(age.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(age.Hours())/24, int(age.Hours())%24)
}
