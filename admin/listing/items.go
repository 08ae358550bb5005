package listing

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ItemsOf are the items of an answer that the view selects, in its order: that of the first row of each.
func (l *List[A, R]) ItemsOf(answer proto.Message, v View) (items []Item) {
	seen := map[string]bool{}
	for _, r := range l.arranged(answer.(A), v) {
		if id := l.ID(r); !seen[id] {
			seen[id] = true
			items = append(items, Item{ID: id, Message: l.Item(r)})
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
	list := answer.ProtoReflect().Mutable(l.field(answer)).List()
	list.Truncate(0)
	for _, item := range items {
		list.Append(protoreflect.ValueOfMessage(item.Message.ProtoReflect()))
	}
}

func (l *List[A, R]) field(answer proto.Message) protoreflect.FieldDescriptor {
	return answer.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(l.Field))
}
