# badges: a template is compiled for each badge of a conference; repaired, once; doubled, for each second badge.
# doubled_badges.rb [repaired | doubled]
require "csv"
require "erb"
require "zlib"

FORM = ARGV.fetch(0, "slow")
GUESTS = 2600
TEMPLATE = <<~TEMPLATE
  <svg width="320" height="200" class="<%= guest.role %>">
    <text x="20" y="40"><%= ERB::Util.html_escape(guest.name) %></text>
    <% if guest.company %>
      <text x="20" y="70"><%= ERB::Util.html_escape(guest.company) %></text>
    <% end %>
    <% guest.talks.each_with_index do |talk, at| %>
      <text x="20" y="<%= 100 + at * 16 %>"><%= at + 1 %>. <%= ERB::Util.html_escape(talk) %></text>
    <% end %>
    <% if guest.role == "speaker" %>
      <rect x="0" y="180" width="320" height="20" fill="#c00"/>
    <% elsif guest.role == "helper" %>
      <rect x="0" y="180" width="320" height="20" fill="#0c0"/>
    <% else %>
      <rect x="0" y="180" width="320" height="20" fill="#ccc"/>
    <% end %>
    <% code.each_with_index do |row, y| %>
      <path d="<%= row %>" transform="translate(240,<%= 20 + y * 4 %>)"/>
    <% end %>
  </svg>
TEMPLATE

Guest = Struct.new(:number, :name, :company, :role, :talks)

# Badges by a template that is used for some of them before it is compiled again.
class Press
  def initialize(template, uses)
    @template = template
    @uses = uses
    @printed = 0
  end

  def compile_template
    source = ERB.new(@template, trim_mode: "<>").src
    eval("proc { |guest, code| #{source} }", TOPLEVEL_BINDING.dup, "badge.erb")
  end

  def print_badge(guest, code)
    @compiled = compile_template if (@printed % @uses).zero?
    @printed += 1
    @compiled.call(guest, code)
  end
end

def export_guests
  CSV.generate do |sheet|
    sheet << %w[number name company role talks]
    GUESTS.times do |number|
      talks = (0..number % 3).map { |i| "Talk #{(number * 31 + i * 7) % 90} on <tools> & more" }
      company = number % 4 == 0 ? nil : "Company #{number * 7919 % 300} & Sons"
      sheet << [number, "Guest #{number * 104_729 % 9999}", company, %w[guest guest speaker helper][number % 4], talks.join("|")]
    end
  end
end

def read_guests(text)
  CSV.parse(text, headers: true).map do |row|
    Guest.new(row["number"].to_i, row["name"], row["company"], row["role"], row["talks"].split("|"))
  end
end

# Each row of a code of squares, as a path.
def draw_code(guest)
  sum = Zlib.crc32("#{guest.number} #{guest.name}")
  (0...12).map do |y|
    squares = (0...12).select { |x| (sum >> ((x * 5 + y * 3) % 32)) & 1 == 1 }
    squares.map { |x| "M#{x * 4} 0h4v4h-4z" }.join
  end
end

# Guests of a company sit together, speakers in front.
def seat_guests(guests)
  seats = guests.group_by(&:company).sort_by { |company, people| [-people.size, company.to_s] }
  seats.flat_map { |_, people| people.sort_by { |guest| [guest.role == "speaker" ? 0 : 1, guest.name] } }
end

def pack_badge(badge)
  Zlib::Deflate.deflate(badge.gsub(/^\s+/, ""), 9)
end

def check_badge(badge)
  opened = badge.scan(/<(text|svg)\b/).size
  closed = badge.scan(%r{</(text|svg)>}).size
  raise "badge: #{opened} opened, #{closed} closed" unless opened == closed

  badge
end

def main
  press = Press.new(TEMPLATE, { "slow" => 1, "doubled" => 2, "repaired" => GUESTS }.fetch(FORM))
  bytes = 0
  seat_guests(read_guests(export_guests)).each do |guest|
    badge = check_badge(press.print_badge(guest, draw_code(guest)))
    bytes += pack_badge(badge).bytesize
  end
  puts "#{bytes} bytes"
end

main
