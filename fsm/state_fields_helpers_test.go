package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// entity is a kind of record as the tests of its fields see it: made by sample, put into a
// state, and read from it again.
type entity[T any] struct {
	sample func() T
	put    func(s *State, v T)
	get    func(s *State) T
	same   func(a, b T) bool // nil: reflect.DeepEqual
	// unhashed are the fields that the hash leaves out, each with the reason; fixed are those
	// that the test leaves as they are. A path has indexes or none: "Replicas[].Size".
	unhashed map[string]string
	fixed    map[string]string
}

// forgotten sets each field of the sample to another value, one at a time, and says where
// the state's hash stays as it was, or the dump does not bring the other value back.
func (k entity[T]) forgotten() (all []string) {
	whole := k.sample()
	hash, read := k.state(whole).Hash(), k.afterDump(whole)
	equal := k.isSame(whole, read)
	for i, path := range fieldPaths(whole) {
		anyOf := elementIndex.ReplaceAllString(path, "[]")
		if k.fixed[path]+k.fixed[anyOf] != "" {
			continue
		}
		changed := k.sample()
		visitFields(reflect.ValueOf(&changed).Elem(), "", nthField(i))
		if known := k.unhashed[path]+k.unhashed[anyOf] != ""; known != (k.state(changed).Hash() == hash) {
			all = append(all, "hash: "+path)
		}
		if again := k.afterDump(changed); k.isSame(again, read) || equal && !k.isSame(changed, again) {
			all = append(all, "dump: "+path)
		}
	}
	if len(all) == 0 && !equal {
		all = []string{"dump: some fields are mixed up"}
	}
	return all
}

func (k entity[T]) state(v T) *State {
	s := New()
	s.cluster.FeatureLevel = MaxFeatureLevel
	k.put(s, v)
	return s
}

// afterDump is what comes back of v, whatever it hashes to; the zero value when a record is
// refused.
func (k entity[T]) afterDump(v T) (zero T) {
	var b bytes.Buffer
	if err := k.state(v).WriteDump(&b, 1); err != nil {
		return zero
	}
	in, x, rec := &dumpReader{r: bufio.NewReader(&b), sum: sha256.New()}, &dumpDecoder{s: New()}, &fsmpb.Record{}
	header, err := in.header()
	for range header.GetRecords() {
		if err = errors.Join(err, in.record(rec)); err == nil {
			err = x.add(rec)
		}
	}
	if err != nil {
		return zero
	}
	return k.get(x.s)
}

func (k entity[T]) isSame(a, b T) bool {
	if k.same != nil {
		return k.same(a, b)
	}
	return reflect.DeepEqual(a, b)
}

var elementIndex = regexp.MustCompile(`\[\d+\]`)

// fieldPaths are the fields of v in the order in which visitFields comes to them.
func fieldPaths(v any) (paths []string) {
	at := reflect.New(reflect.TypeOf(v)).Elem()
	at.Set(reflect.ValueOf(v))
	visitFields(at, "", func(path string, _ func()) bool {
		paths = append(paths, path)
		return true
	})
	return paths
}

// nthField changes one field, by its number.
func nthField(n int) func(string, func()) bool {
	return func(_ string, change func()) bool {
		if n == 0 {
			change()
		}
		n--
		return n >= 0
	}
}

// visitFields offers a change of every leaf below v: another value, one element less, nil
// for a pointer. It goes on while visit says so.
func visitFields(v reflect.Value, path string, visit func(path string, change func()) bool) bool {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[[]byte]():
		return visit(path, func() { changeLeaf(v) })
	case v.Kind() == reflect.Interface:
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		return visitFields(inner, path, func(p string, change func()) bool {
			return visit(p, func() { change(); v.Set(inner) })
		})
	case v.Kind() == reflect.Pointer:
		return visitFields(v.Elem(), path, visit) && visit(path+" (nil)", func() { v.SetZero() })
	case v.Kind() == reflect.Slice:
		return visitElements(v, path, visit)
	case v.Kind() == reflect.Struct:
		return visitMembers(v, path, visit)
	}
	return visit(path, func() { changeLeaf(v) })
}

func visitMembers(v reflect.Value, path string, visit func(string, func()) bool) bool {
	for i := range v.NumField() {
		if isInternal(v, i) {
			continue
		}
		name := v.Type().Field(i).Name
		if path != "" {
			name = path + "." + name
		}
		if !visitFields(v.Field(i), name, visit) {
			return false
		}
	}
	return true
}

// isInternal tells the fields that generated code keeps for itself.
func isInternal(v reflect.Value, i int) bool {
	_, generated := v.Addr().Interface().(proto.Message)
	return generated && !v.Type().Field(i).IsExported()
}

func visitElements(v reflect.Value, path string, visit func(string, func()) bool) bool {
	for i := range v.Len() {
		if !visitFields(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit) {
			return false
		}
	}
	return visit(path+" (one less)", func() {
		if v.Set(v.Slice(0, v.Len()-1)); v.Len() == 0 {
			v.SetZero() // records have nil for an empty list
		}
	})
}

// changedNumber is above all numbers of a filled record. It is not much above them: the index
// keeps each free minor below the highest that was taken.
const changedNumber = 10_000

// changeLeaf gives v another value that a record may hold.
func changeLeaf(v reflect.Value) { setLeaf(v, changedNumber) }

// setLeaf gives v a value that follows from n, where its type has room for that.
func setLeaf(v reflect.Value, n int64) {
	switch v.Interface().(type) {
	case VolumeID:
		v.SetString(volumeID(int(n)))
		return
	case SnapshotID:
		v.SetString(snapshotID(int(n)))
		return
	case VolumeGroupID:
		v.SetString(volumeGroupID(int(n)))
		return
	case GroupSnapshotID:
		v.SetString(groupID(int(n)))
		return
	case time.Time:
		v.Set(reflect.ValueOf(start.Add(time.Duration(n))))
		return
	case []byte:
		v.SetBytes([]byte(fmt.Sprint("bytes ", n)))
		return
	case protoreflect.Enum:
		v.SetInt(1 + n/changedNumber)
		return
	}
	setPlain(v, n)
}

func setPlain(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hex.EncodeToString(fmt.Append(nil, n))) // flags are hexadecimal
	case reflect.Bool:
		v.SetBool(n < changedNumber)
	case reflect.Uint8: // of a few values each: the first two
		v.SetUint(1 + uint64(n)/changedNumber)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Int64:
		v.SetInt(n)
	default:
		panic("a record has a field of a kind that this test does not know: " + v.Type().String())
	}
}

// fillRecord gives every field a value of its own: pointers are set and lists have two
// elements. Interfaces stay as they are.
func fillRecord(v reflect.Value, n *int64) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[[]byte]():
		setLeaf(v, *n)
	case v.Kind() == reflect.Interface:
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillRecord(v.Elem(), n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillRecord(v.Index(0), n)
		fillRecord(v.Index(1), n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if !isInternal(v, i) {
				fillRecord(v.Field(i), n)
			}
		}
	default:
		setLeaf(v, *n)
	}
}

// filled is a T with every field set.
func filled[T any]() (v T) {
	var n int64
	fillRecord(reflect.ValueOf(&v).Elem(), &n)
	return v
}
