package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// watchWith looks again and again until the context ends, which is how a watch is done. What may succeed later is told once and
// waited for; what is refused ends the watch.
func (f *listFlags) watchWith(ctx context.Context, c *connection, cmd *cobra.Command, view listing.View, look func() (proto.Message, error)) error {
	show, err := f.viewer(c, cmd, view)
	if err != nil {
		return err
	}
	for {
		answer, err := look()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && exit.Code(err) != exit.Unavailable {
			return err
		}
		if err := show(answer, err); err != nil {
			return err
		}
		if sleepContext(ctx, f.interval) != nil {
			return nil
		}
	}
}

// viewer shows one look after another.
func (f *listFlags) viewer(c *connection, cmd *cobra.Command, view listing.View) (func(proto.Message, error) error, error) {
	view.Wide = c.output == "wide"
	out := cmd.OutOrStdout()
	switch {
	case c.output == "yaml":
		return nil, exit.Usagef("--watch prints a table or JSON, a line for each change: choose -o table, wide or json")
	case c.output != "json" && isTerminal(out):
		title := fmt.Sprintf("%s, every %s", cmd.CommandPath(), f.interval)
		return (&screen{out: out, title: title, format: c.output, list: f.list, view: view}).show, nil
	}
	w := &changeWriter{command: cmd.CommandPath(), errOut: cmd.ErrOrStderr()}
	if c.output == "json" {
		w.changes = (&itemChanges{out: out, list: f.list, view: view}).write
	} else {
		w.changes = (&rowChanges{out: out, list: f.list, view: view}).write
	}
	return w.show, nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// screen draws the list anew on a terminal.
type screen struct {
	out           io.Writer
	title, format string
	list          listing.Lister
	view          listing.View
	last          proto.Message // the newest answer
}

// clearScreen moves to the top left and erases what is below: nothing flickers, and what scrolled away stays.
const clearScreen = "\x1b[H\x1b[J"

func (s *screen) show(answer proto.Message, failure error) error {
	if answer != nil {
		s.last = answer
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "%s%s, %s\n\n", clearScreen, s.title, time.Now().Format(time.TimeOnly))
	if s.last != nil {
		if err := admin.PrintList(&page, s.format, s.list, s.last, s.view); err != nil {
			return err
		}
	}
	if failure != nil {
		fmt.Fprintf(&page, "\n%s; what is above is what was known last\n", exit.Line(failure))
	}
	_, err := s.out.Write(page.Bytes())
	return err
}

// changeWriter writes what changed, and failures to the standard error: the first of an outage, and its end.
type changeWriter struct {
	command string
	errOut  io.Writer
	failing bool
	changes func(proto.Message) error
}

func (w *changeWriter) show(answer proto.Message, failure error) error {
	switch {
	case failure != nil && !w.failing:
		fmt.Fprintf(w.errOut, "%s: %s; the watch goes on\n", w.command, exit.Line(failure))
	case failure == nil && w.failing:
		fmt.Fprintf(w.errOut, "%s: answered again\n", w.command)
	}
	w.failing = failure != nil
	if answer == nil {
		return nil
	}
	return w.changes(answer)
}

// The kinds of change.
const (
	rowAdded   = "added"
	rowChanged = "changed"
	rowRemoved = "removed"
)

// difference calls tell for what is new or changed in now, and then for what is only in last.
func difference[T any](last, now []T, id func(T) string, same func(a, b T) bool, tell func(change string, t T) error) error {
	before := map[string]T{}
	for _, t := range last {
		before[id(t)] = t
	}
	for _, t := range now {
		change := rowAdded
		if old, known := before[id(t)]; known {
			delete(before, id(t))
			if same(old, t) {
				continue
			}
			change = rowChanged
		}
		if err := tell(change, t); err != nil {
			return err
		}
	}
	for _, t := range last {
		if _, gone := before[id(t)]; gone {
			if err := tell(rowRemoved, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowChanges writes the rows of a table that changed, with the time. Columns grow with what is in them.
type rowChanges struct {
	out    io.Writer
	list   listing.Lister
	view   listing.View
	last   []listing.Row
	widths []int
}

func (r *rowChanges) write(answer proto.Message) error {
	var page bytes.Buffer
	if r.widths == nil {
		r.line(&page, append([]string{"TIME", "CHANGE"}, r.list.Header(r.view)...))
		r.widths[0] = len(changeTime())
	}
	rows, at := r.list.RowsOf(answer, r.view), changeTime()
	err := difference(r.last, rows, func(x listing.Row) string { return x.ID }, func(a, b listing.Row) bool { return a.Fixed == b.Fixed },
		func(change string, x listing.Row) error {
			r.line(&page, append([]string{at, change}, oneLine(x)...))
			return nil
		})
	r.last = rows
	if err != nil || page.Len() == 0 {
		return err
	}
	_, err = r.out.Write(page.Bytes())
	return err
}

// oneLine are the cells of a row, with what is below it at its end: each change is one line.
func oneLine(x listing.Row) []string {
	cells := slices.Clone(x.Cells)
	if len(x.Below) > 0 {
		cells[len(cells)-1] += ": " + strings.Join(x.Below, "; ")
	}
	return cells
}

func (r *rowChanges) line(page *bytes.Buffer, cells []string) {
	if r.widths == nil {
		r.widths = make([]int, len(cells))
	}
	for i, cell := range cells {
		r.widths[i] = max(r.widths[i], len(cell))
		if i == len(cells)-1 {
			fmt.Fprintln(page, cell)
			return
		}
		fmt.Fprintf(page, "%-*s  ", r.widths[i], cell)
	}
}

func changeTime() string { return time.Now().UTC().Format(time.RFC3339) }

// itemChanges writes the items that changed as lines of JSON.
type itemChanges struct {
	out  io.Writer
	list listing.Lister
	view listing.View
	last []listing.Item
}

func (c *itemChanges) write(answer proto.Message) error {
	items, at := c.list.ItemsOf(answer, c.view), changeTime()
	index := indexOf(answer)
	err := difference(c.last, items, func(x listing.Item) string { return x.ID },
		func(a, b listing.Item) bool { return a.Field == b.Field && proto.Equal(a.Message, b.Message) },
		func(change string, x listing.Item) error {
			return admin.PrintChange(c.out, at, index, change, x.Field, x.Message)
		})
	c.last = items
	return err
}

// indexOf is the index that an answer was read at.
func indexOf(answer proto.Message) uint64 {
	if a, ok := answer.(interface{ GetIndex() uint64 }); ok {
		return a.GetIndex()
	}
	return 0
}
