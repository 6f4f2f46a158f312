package inbox

import "strings"

// cloudEventsPrefixes are the forms in which attributes come as headers: the
// two of the AMQP binding, then those of the HTTP and Kafka bindings, which
// many producers use on RabbitMQ.
// https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/amqp-protocol-binding.md
var cloudEventsPrefixes = []string{"cloudEvents:", "cloudEvents_", "ce-", "ce_"}

// contentTypeHeaders are the names under which transports hand on the content
// type, in the order in which they are asked: the AMQP property as our RabbitMQ
// marshaler names it comes before headers that a producer set.
var contentTypeHeaders = []string{"amqp-content-type", "content-type", "Content-Type", "content_type", "contentType"}

// cloudEventsKey is cloudevents: FrameKey(source, id), the pair that the
// specification makes unique; id alone is not. Where the content type says
// application/cloudevents+json the pair is read from the body (structured
// mode), and only there. Else from headers (binary mode): the first prefix
// under which both are there; prefixes are not mixed. Batches, other event
// formats and incomplete pairs give no key.
type cloudEventsKey struct{}

func (cloudEventsKey) Of(m Message) (string, error) {
	var source, id, why string
	switch media := contentType(m); {
	case media == "application/cloudevents+json":
		source, id, why = structuredEvent(m.Body())
	case strings.HasPrefix(media, "application/cloudevents"):
		why = "only the format application/cloudevents+json can be read"
	default:
		source, id, why = binaryEvent(m)
	}
	if why != "" {
		return "", absentf("cloudevents: %s", why)
	}
	return FrameKey(source, id), nil
}

func (cloudEventsKey) String() string { return "cloudevents" }

// contentType gives the media type in lower case, without parameters.
func contentType(m Message) string {
	for _, name := range contentTypeHeaders {
		if v, err := (headerKey{name: name}).Of(m); err == nil {
			media, _, _ := strings.Cut(v, ";")
			return strings.ToLower(strings.TrimSpace(media))
		}
	}
	return ""
}

func structuredEvent(body []byte) (source, id, why string) {
	for _, a := range []struct {
		name string
		to   *string
	}{{"source", &source}, {"id", &id}} {
		text, isString, why := jsonText(body, []string{a.name})
		if why == "" && !isString {
			why = "the value is a number"
		}
		if why != "" {
			return "", "", a.name + " in the body: " + why
		}
		*a.to = text
	}
	return source, id, ""
}

func binaryEvent(m Message) (source, id, why string) {
	why = "no source and id in headers that begin with " + strings.Join(cloudEventsPrefixes, ", ")
	for _, prefix := range cloudEventsPrefixes {
		source, noSource := (headerKey{name: prefix + "source"}).Of(m)
		id, noID := (headerKey{name: prefix + "id"}).Of(m)
		switch {
		case noSource == nil && noID == nil:
			return source, id, ""
		case noSource == nil:
			why = whyAbsent(noID)
		case noID == nil:
			why = whyAbsent(noSource)
		}
	}
	return "", "", why
}
