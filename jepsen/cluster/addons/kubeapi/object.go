package kubeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Object is an object as its JSON is.
type Object map[string]any

// Ref names an object. Resource is the plural; there is no namespace where it has none.
type Ref struct{ Resource, Namespace, Name string }

func (r Ref) String() string { return fmt.Sprintf("%s %s/%s", r.Resource, r.Namespace, r.Name) }

// clone copies an object wholly: what is stored is never changed.
func (o Object) clone() Object {
	text, err := json.Marshal(o)
	var made Object
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		panic(fmt.Sprintf("an object of JSON does not become JSON: %v", err)) // it was read as JSON
	}
	return made
}

// Meta are the object's metadata; they can be written.
func (o Object) Meta() map[string]any {
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	return meta
}

// Get is what is at the end of a path of keys, nil when there is nothing.
func (o Object) Get(path ...string) any {
	var at any = map[string]any(o)
	for _, key := range path {
		fields, _ := at.(map[string]any)
		at = fields[key]
	}
	return at
}

// Text is the text at the end of a path of keys, empty when there is none.
func (o Object) Text(path ...string) string {
	text, _ := o.Get(path...).(string)
	return text
}

// Texts are the texts of the list at the end of a path of keys.
func (o Object) Texts(path ...string) (all []string) {
	list, _ := o.Get(path...).([]any)
	for _, one := range list {
		text, _ := one.(string)
		all = append(all, text)
	}
	return all
}

// deleted tells an object that is to go once nothing holds it.
func (o Object) deleted() bool { return o.Text("metadata", "deletionTimestamp") != "" }

// content is the object without what only the server writes: its generation counts the changes of that.
func (o Object) content() Object {
	c := Object(maps.Clone(o))
	delete(c, "metadata")
	delete(c, "status")
	return c
}

func same(a, b Object) bool { return reflect.DeepEqual(a, b) }

// kept are the metadata that no update changes.
var kept = []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"}

// replaced is what an update makes of an object: its status through the path of the status alone, all else through the other.
func (r resource) replaced(old, given Object, status bool) Object {
	made := given.clone()
	if status {
		made = old.clone()
		made["status"] = given.clone()["status"]
	} else if r.status {
		setOrDelete(made, "status", old["status"])
	}
	made["kind"], made["apiVersion"] = old["kind"], old["apiVersion"] // protobuf has them outside of the object
	for _, key := range kept {
		setOrDelete(made.Meta(), key, old.Meta()[key])
	}
	if !same(made.content(), old.content()) {
		made.Meta()["generation"] = number(old.Get("metadata", "generation")) + 1
	}
	return made.clone()
}

func setOrDelete(fields map[string]any, key string, value any) {
	if value == nil {
		delete(fields, key)
		return
	}
	fields[key] = value
}

func number(value any) float64 {
	n, _ := value.(float64)
	return n
}

// merge is a JSON merge patch (RFC 7396).
func merge(at, patch map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		switch value := patch[key].(type) {
		case nil:
			delete(at, key)
		case map[string]any:
			below, ok := at[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[key] = below
			}
			merge(below, value)
		default:
			at[key] = value
		}
	}
}
