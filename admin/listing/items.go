package listing

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ItemsOf are the items of an answer that the view selects, in its order: that of the first row of each.
func (l *List[A, R]) ItemsOf(answer proto.Message, v View) (items []Item) {
	seen := map[string]bool{}
	for _, r := range l.arranged(answer.(A), v) {
		if id := l.ID(r); !seen[id] {
			seen[id] = true
			items = append(items, Item{ID: id, Field: l.fieldOf(r), Message: l.Item(r)})
		}
	}
	return items
}

// Arrange leaves in the answer what the view selects, in the view's order. A view without a wish leaves the answer alone, with
// items that have no rows.
func (l *List[A, R]) Arrange(answer proto.Message, v View) {
	if len(v.SortBy) == 0 && len(v.Select) == 0 {
		return
	}
	items := l.ItemsOf(answer, v)
	for _, field := range l.fields() {
		listIn(answer, field).Truncate(0)
	}
	for _, item := range items {
		listIn(answer, cmp.Or(item.Field, l.Field)).Append(protoreflect.ValueOfMessage(item.Message.ProtoReflect()))
	}
}

// fieldOf is the field that a row's item is in, empty where there is one field.
func (l *List[A, R]) fieldOf(r R) string {
	if l.FieldOf == nil {
		return ""
	}
	return l.FieldOf(r)
}

func (l *List[A, R]) fields() []string {
	if l.FieldOf == nil {
		return []string{l.Field}
	}
	return l.Fields
}

func listIn(answer proto.Message, field string) protoreflect.List {
	m := answer.ProtoReflect()
	return m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(field))).List()
}
