package inbox

// keyMsg is a message as a Key sees it.
type keyMsg struct {
	headers map[string]any
	id      string
	body    string
}

func (m keyMsg) Header(name string) (any, bool) { v, ok := m.headers[name]; return v, ok }
func (m keyMsg) MessageID() string              { return m.id }
func (m keyMsg) Body() []byte                   { return []byte(m.body) }

type hdr = map[string]any
