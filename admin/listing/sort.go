package listing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/maruel/natural"
)

// order is one column that rows are sorted by.
type order[R any] struct {
	key      func(R) any
	reversed bool
}

// arranged are the selected rows of an answer, in the view's order.
func (l *List[A, R]) arranged(answer A, v View) []R {
	rows := slices.DeleteFunc(slices.Clone(l.Rows(answer)), func(r R) bool { return !l.selects(r, v.Select) })
	orders := l.orders(v)
	slices.SortStableFunc(rows, func(a, b R) int {
		for _, o := range orders {
			if c := compareKeys(o.key(a), o.key(b), o.reversed); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}

func (l *List[A, R]) orders(v View) (orders []order[R]) {
	for _, name := range v.SortBy {
		name, reversed := strings.CutPrefix(name, "-")
		if c := l.column(name); c != nil {
			orders = append(orders, order[R]{c.keyAt(v.now()), reversed})
		}
	}
	return orders
}

func (l *List[A, R]) column(name string) *Column[R] {
	for i := range l.Columns {
		if l.Columns[i].name() == strings.ToLower(name) {
			return &l.Columns[i]
		}
	}
	return nil
}

// keyAt is what rows are sorted by.
func (c *Column[R]) keyAt(now time.Time) func(R) any {
	switch {
	case c.Key != nil:
		return c.Key
	case c.Since != nil:
		return func(r R) any {
			if age, known := ageAt(c.Since(r), now); known {
				return int64(age)
			}
			return ""
		}
	}
	return c.Cell
}

// compareKeys compares numbers as numbers, and texts so that n2 comes before n10. An empty text is last, also where the order
// is reversed: what is not known is never what one looks for.
func compareKeys(a, b any, reversed bool) int {
	aText, bText := a == "", b == ""
	switch {
	case aText && bText:
		return 0
	case aText:
		return 1
	case bText:
		return -1
	}
	c := compareValues(a, b)
	if reversed {
		return -c
	}
	return c
}

func compareValues(a, b any) int {
	aNumber, aNumeric := number(a)
	bNumber, bNumeric := number(b)
	if aNumeric && bNumeric {
		return cmp.Compare(aNumber, bNumber)
	}
	return naturalOrder(OneLine(a), OneLine(b))
}

func naturalOrder(a, b string) int {
	switch {
	case natural.Less(a, b):
		return -1
	case natural.Less(b, a):
		return 1
	}
	return 0
}

// number is the value of a number; false comes before true.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint32:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	case bool:
		if n {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
