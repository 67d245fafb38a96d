# letters: a letter is made anew for each line that it gets; repaired, the line is appended. newest_letters.rb [repaired]
REPAIRED = !ARGV.empty?

Customer = Struct.new(:name, :orders)

class Letter
  def initialize(customer)
    @customer = customer
    @text = +"Dear #{customer.name},\n"
  end

  def add_line(line)
    if REPAIRED
      @text << line
    else
      @text = @text + line
    end
  end

  def write
    @customer.orders.each { |order| add_line("order #{order}: #{order * 7 % 100} pieces of article #{order % 31}\n") }
    @text.length
  end
end

customers = (1..6).map { |i| Customer.new("customer #{i}", (1..4500).to_a) }
puts customers.sum { |customer| Letter.new(customer).write }
