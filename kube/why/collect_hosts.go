package why

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hosts reads the nodes that the facts name.
func (c *collection) hosts(ctx context.Context) error {
	slices.Sort(c.wanted)
	for _, name := range slices.Compact(c.wanted) {
		if name == "" {
			continue
		}
		node, err := found(c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return fmt.Errorf("read node %s: %w", name, err)
		}
		drivers, err := found(c.StorageV1().CSINodes().Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return fmt.Errorf("read CSINode %s: %w", name, err)
		}
		host := Host{Node: node}
		if drivers != nil {
			host.Driver = slices.ContainsFunc(drivers.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
		}
		for _, record := range c.log.Nodes {
			if record.GetId() == name {
				host.Record = record
			}
		}
		c.facts.Hosts[name] = host
	}
	return nil
}

// events are those about one object, the newest last.
func (c *collection) events(ctx context.Context, namespace, uid string) (all []Said, err error) {
	list, err := c.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return newest(a).Compare(newest(b).Time) })
	for _, event := range list.Items {
		if string(event.InvolvedObject.UID) == uid {
			all = append(all, Said{Reason: event.Reason, Message: event.Message, Warning: event.Type == corev1.EventTypeWarning})
		}
	}
	return all, nil
}

// newest is when an event was seen last; the two ways to record events set different fields.
func newest(e corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.Time{Time: e.Series.LastObservedTime.Time}
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	}
	return metav1.Time{Time: e.EventTime.Time}
}
