# bookmarks: all bookmarks are saved after each one that is added; repaired, at the end; doubled, after each second one.
# doubled_bookmarks.rb [repaired | doubled]
require "digest"
require "json"
require "tmpdir"
require "uri"

FORM = ARGV.fetch(0, "slow")
COUNT = 700
PAGES = %w[news recipes maps weather trains films].freeze

Bookmark = Struct.new(:number, :title, :address, :tags, :added) do
  def to_json(*state) = to_h.to_json(*state)
end

# Bookmarks in a file that is whole at any time.
class Store
  attr_reader :bookmarks

  def initialize(path)
    @path = path
    @bookmarks = []
  end

  def add(bookmark)
    @bookmarks << bookmark
  end

  def save_all
    written = "#{@path}.new"
    File.write(written, JSON.generate({ version: 3, bookmarks: @bookmarks }))
    File.rename(written, @path)
  end
end

def read_page(number)
  host = "#{PAGES[number % 6]}-#{number * 31 % 90}.example.org"
  words = (1..70).map { |i| "word#{number * i * 7919 % 997}" }
  "<html><head><title>#{words.first(4).join(" ")}</title></head><body><a href=\"https://#{host}/#{number}?from=list&x=1\">" \
    "#{words.join(" ")}</a></body></html>"
end

def title_of(page)
  page[%r{<title>(.*?)</title>}, 1].split.map(&:capitalize).join(" ")
end

# An address without what says where the reader came from.
def clean_address(page)
  address = URI.parse(page[/href="([^"]+)"/, 1])
  query = URI.decode_www_form(address.query || "").reject { |name, _| name == "from" }
  address.query = query.empty? ? nil : URI.encode_www_form(query)
  address.to_s
end

# The words that are frequent in a page, and rare in all pages.
def tags_of(page, seen)
  words = page.gsub(/<[^>]+>/, " ").scan(/[a-z]+\d*/)
  words.each { |word| seen[word] += 1 }
  words.tally.max_by(4) { |word, count| count * 1000 / (10 + seen[word]) }.map(&:first).sort
end

def similar?(one, other)
  shared = (one.tags & other.tags).size
  shared * 2 > one.tags.size
end

# The bookmarks of the last while that a new one looks like.
def find_similar(store, bookmark)
  store.bookmarks.last(150).select { |other| similar?(bookmark, other) }.map(&:number)
end

# The bookmarks of each tag, the newest first.
def list_by_tag(store)
  by_tag = Hash.new { |tags, tag| tags[tag] = [] }
  store.bookmarks.reverse_each { |bookmark| bookmark.tags.each { |tag| by_tag[tag] << bookmark.title } }
  by_tag.sort.map { |tag, titles| "#{tag}: #{titles.join(", ")}" }
end

def fingerprint(page)
  digest = page
  60.times { digest = Digest::SHA256.digest(digest) }
  digest.unpack1("H*")[0, 8]
end

def main
  Dir.mktmpdir do |folder|
    store = Store.new(File.join(folder, "bookmarks.json"))
    seen = Hash.new(0)
    prints = {}
    alike = 0
    COUNT.times do |number|
      page = read_page(number)
      bookmark = Bookmark.new(number, title_of(page), clean_address(page), tags_of(page, seen), 1_700_000_000 + number * 60)
      alike += find_similar(store, bookmark).size
      prints[fingerprint(page)] = number
      store.add(bookmark)
      store.save_all if FORM == "slow" || (FORM == "doubled" && number.odd?)
    end
    store.save_all if FORM == "repaired"
    puts "#{store.bookmarks.size} bookmarks of #{list_by_tag(store).size} tags, #{alike} alike, #{prints.size} prints"
  end
end

main
